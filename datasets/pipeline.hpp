#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/units.hpp"
#include "datasets/dataset.hpp"
#include "kernels/normalise.hpp"

namespace dtrain::datasets {

// What a micro-batch holds: normalised floats; or bytes as they are in the files, or numbers of records, each
// with the crops of augmentation beside them for whoever normalises; or labels alone, of images that another
// rank looks at.
enum class BatchContent { nchw, nhwc, bytes, records, labels };

struct PipelineConfig {
  std::shared_ptr<const Dataset> dataset = nullptr;
  std::uint64_t seed = 0;
  int shuffle = 10000;
  int global_batch = 64;   // images a step over all ranks and micro-steps
  bool keep_last = false;  // train on the remainder of an epoch too
  int rank = 0;
  int replicas = 1;
  int accumulate = 1;  // the rank's share of a step is dealt into this many micro-batches
  // Random crop with a border of 4 black pixels (0 before normalising, as torchvision's usual recipe has it)
  // and horizontal flip, by (seed, epoch, image) alone.
  bool augment = false;
  BatchContent content = BatchContent::nchw;
  int prefetch = 2;             // micro-batches prepared ahead on the pipeline's own thread; 0 = when asked
  std::vector<int> cores = {};  // where its thread may run: the replica's share; empty = not pinned
  Seconds timeout{60.0};        // longest wait for a micro-batch before next() gives up
};

// Images of one micro-step, valid until the next call of Pipeline::next() or seek(). What the content has no
// use for is null.
struct MicroBatch {
  const float* images = nullptr;
  const std::uint8_t* pixels = nullptr;   // [count][3072]
  const std::int32_t* records = nullptr;  // indices into the dataset
  const kernels::Crop* crops = nullptr;   // bytes, records: with augment
  const std::int32_t* labels = nullptr;
  int count = 0;        // may be 0 for a rank that gets no image of a small remainder
  int step_images = 0;  // images of the whole step, all ranks and micro-steps: gradients are divided by it
  int epoch = 0;
  bool last_of_step = false;   // the last micro-batch of its step
  bool last_of_epoch = false;  // the last micro-batch of its epoch's last step
};

// Belongs to one thread: its replica's.
class Pipeline {
 public:
  virtual ~Pipeline() = default;
  // Rethrows what went wrong while preparing, after the micro-batches that came before it.
  virtual const MicroBatch& next() = 0;
  // Whether next() would return at once, or at least without waiting for another thread.
  virtual bool ready() = 0;
  virtual int steps_per_epoch() const = 0;
  // Goes on from this step (counted over epochs) as if all before had been taken.
  virtual void seek(std::int64_t step) = 0;
};

// Usage error when the numbers do not fit: above all when a dropped last batch would leave no step at all.
std::unique_ptr<Pipeline> make_pipeline(const PipelineConfig& config);

// Per channel, of the training set: the usual CIFAR-10 constants.
inline constexpr float channel_mean[3] = {0.4914F, 0.4822F, 0.4465F};
inline constexpr float channel_deviation[3] = {0.2470F, 0.2435F, 0.2616F};

}  // namespace dtrain::datasets
