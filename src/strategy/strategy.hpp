#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "backend/replica.hpp"
#include "base/registry.hpp"
#include "base/units.hpp"
#include "comm/communicator.hpp"

namespace dtrain::strategy {

// What a rank's strategy works with. All outlive it.
struct RankContext {
  int rank = 0;
  int replicas = 1;
  backend::Replica* replica = nullptr;
  comm::Communicator* communicator = nullptr;
  Seconds timeout{20.0};
  bool loss_scaling = false;  // gradients may overflow: an update that is refused must leave weights alone
};

// Drives one replica through a step. The engine calls, in this order: before_step; for each bucket,
// bucket_ready (from backward, last micro-step only); synchronize; apply. It stamps between the calls:
// strategies keep no time.
class RankStrategy : public backend::GradientSink {
 public:
  virtual void before_step() = 0;
  // Waits until gradients (or whatever the strategy exchanges) are those of the whole step.
  virtual void synchronize() = 0;
  // Updates weights. What became of it is the replica's outcome(); all ranks saw the same gradients, so all
  // have the same.
  virtual void apply(const kernels::OptimizerStep& step) = 0;
  // Whether a step's calls only enqueue work on the replica's device, so that it may record them and replay
  // them without this strategy.
  virtual bool only_enqueues() const = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::unique_ptr<RankStrategy> attach(const RankContext& context) const = 0;
  // Replicas whose gradients are combined in one update; 1 for asynchronous strategies.
  virtual int replicas_in_sync(int replicas) const = 0;
  virtual bool uses_collective() const = 0;
  virtual bool spans_workers() const = 0;
  virtual int max_replicas() const = 0;  // 1 for single
};

// single (OneDeviceStrategy), mirrored (MirroredStrategy).
const Registry<std::shared_ptr<const Strategy>>& strategies();

}  // namespace dtrain::strategy
