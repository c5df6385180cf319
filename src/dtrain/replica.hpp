#pragma once

#include <optional>

#include "backend/replica.hpp"
#include "datasets/pipeline.hpp"

namespace dtrain {

// Images of one micro-step that fell to a replica, valid until its next one. `step_images` counts those of
// all replicas in the whole step, `last_of_step` says that the step's update follows.
using Batch = datasets::MicroBatch;

// Of a replica's own images in a step, over its micro-steps.
using StepResult = backend::BatchResult;

class DistributedDataset;

// One copy of the model on one device, on a thread of its own: what a per-replica function works with. A step
// is forward and backward of one batch (of several with --accumulate), then apply_gradients. Every replica
// has to take the same steps: the others wait for it, until the timeout.
//
// Calls in another order are usage errors; a loss, gradient or weight that is not finite is a run error, as
// it is in `dtrain train`.
class Replica {
 public:
  virtual ~Replica() = default;

  // From 0 to num_replicas - 1, over all workers.
  virtual int id() const = 0;
  // The next batch of this replica's share.
  virtual const Batch& next(const DistributedDataset& dataset) = 0;

  virtual void forward(const Batch& batch) = 0;
  // Gradients of the loss, summed over images and divided by the images of the whole step. With the last
  // batch of a step they start on their way to the other replicas, as the strategy has it.
  virtual void backward(const Batch& batch) = 0;
  // Waits for the gradients of all, and updates the weights. Without a rate, the one that --lr and --schedule
  // give for this step. False: under fp16 gradients overflowed, and all replicas skip this update alike.
  virtual bool apply_gradients(std::optional<double> learning_rate = std::nullopt) = 0;
  // Of the step that apply_gradients has ended.
  virtual StepResult result() const = 0;

  // Whatever else it can do: weights, gradients, evaluation of a batch.
  virtual backend::Replica& device() = 0;
};

}  // namespace dtrain
