#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backend/replica.hpp"
#include "base/registry.hpp"
#include "base/units.hpp"
#include "cluster/member.hpp"
#include "comm/communicator.hpp"
#include "config/plan.hpp"

namespace dtrain::strategy {

// What the ranks of one run in this process share beside a communicator, or what a process without replicas
// gives to the run.
class Shared {
 public:
  virtual ~Shared() = default;
  virtual void abort(const std::string& /*reason*/) {}  // ends all waits in it
};

// One run, as a process sees it once its replicas are built.
struct RunContext {
  const config::Options* options = nullptr;
  const config::RunPlan* plan = nullptr;
  std::size_t flat_size = 0;          // floats of a replica's flat buffers
  cluster::Member* member = nullptr;  // null: all of the run is in this process
  std::string name;                   // of the run, the same in all processes and never used twice in a job
  std::shared_ptr<Shared> serving = nullptr;  // what this process gives to another run already, if it does
  cluster::TlsFiles tls = {};                 // of the job
};

// What a rank's strategy works with. All outlive it.
struct RankContext {
  int rank = 0;
  int replicas = 1;
  backend::Replica* replica = nullptr;
  comm::Communicator* communicator = nullptr;
  const config::Options* options = nullptr;
  std::shared_ptr<Shared> shared = nullptr;
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
  // Local updates come first, and synchronize after apply.
  virtual bool synchronizes_last() const { return false; }
  // A stretch of steps has ended: this rank takes no more before all have taken as many, and nobody is to
  // wait for it.
  virtual void rest() {}
  // Of the step that has just ended.
  struct StepReport {
    bool communicated = true;  // steps may go by without (sync-every)
    int staleness = 0;         // updates by others between this gradient's weights and its own update
    bool dropped = false;      // its gradient came too late to be used
  };
  virtual StepReport report() const { return {}; }
  // Where the update happens elsewhere, what became of it, instead of the replica's outcome().
  virtual std::optional<backend::StepOutcome> outcome() const { return std::nullopt; }
  // Handed to others so far beside what the communicator counts.
  virtual std::uint64_t bytes_sent() const { return 0; }
  // Where optimizer state lies outside of the replica: brings it in before it is exported, takes it out after
  // it was imported. Called on all ranks.
  virtual void collect_state() {}
  virtual void distribute_state() {}
  // Whether a step's calls only enqueue work on the replica's device, so that it may record them and replay
  // them without this strategy.
  virtual bool only_enqueues() const = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::unique_ptr<RankStrategy> attach(const RankContext& context) const = 0;
  // Made once a process for a run, after its replicas; null where there is nothing to share.
  virtual std::shared_ptr<Shared> share(const RunContext&) const { return nullptr; }
  // On a process without replicas (a parameter server), before the others share; lives as long as the run.
  virtual std::shared_ptr<Shared> serve(const RunContext&) const { return nullptr; }
  // Throws a usage error for options that this strategy cannot follow.
  virtual void check(const config::Options&) const {}
  // Replicas whose gradients are combined in one update; 1 for asynchronous strategies.
  virtual int replicas_in_sync(const config::Options& options, int replicas) const = 0;
  virtual bool uses_collective() const = 0;            // a communicator is needed
  virtual bool uses_servers() const { return false; }  // parameter servers of the job take part
  // Ranks wait for others, so that arrival and communication are stamped.
  virtual bool communicates() const { return uses_collective(); }
  virtual bool spans_workers() const = 0;
  virtual int max_replicas() const = 0;  // 1 for single
};

// single (OneDeviceStrategy), mirrored (MirroredStrategy), multi-worker (MultiWorkerMirroredStrategy),
// parameter-server (ParameterServerStrategy).
const Registry<std::shared_ptr<const Strategy>>& strategies();

}  // namespace dtrain::strategy
