#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backend/backend.hpp"
#include "backend/replica.hpp"
#include "base/registry.hpp"
#include "base/units.hpp"
#include "cluster/member.hpp"
#include "comm/communicator.hpp"
#include "config/plan.hpp"
#include "measure/samples.hpp"
#include "model/part.hpp"

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

// What a rank of a run holds of the model, and which of a step's images it takes.
struct Assignment {
  std::optional<model::Part> part;  // none: the whole model
  bool contributes = true;          // to the whole that the parts make up; false: another rank holds the same
  int share = 0;                    // of the step's images, in the order of shares
  int shares = 1;
  bool counts = true;  // images and losses are the run's; false: another rank reports the same images
  int max_batch = 0;   // images that its replica takes at once
  int slots = 1;       // micro-batches in flight
  bool gives_loss = true;
  bool wants_input_gradient = false;
  bool sharded = false;
  int zero_stage = 0;            // sharded: what is, over all ranks, and whether gradients stay to the
  bool whole_gradients = false;  // end of backward; as in backend::ReplicaConfig
  std::size_t bucket_bytes = 0;  // 0: as the options say
  int devices = 1;               // that the rank drives
};

struct AssignmentContext {
  const model::Model* model = nullptr;  // the whole
  const config::Options* options = nullptr;
  const config::RunPlan* plan = nullptr;
  int rank = 0;
};

// Where a strategy's work inside of forward, backward or update belongs to another phase, it says so, and the
// engine stamps. Outside of them calls change nothing.
class StepClock {
 public:
  virtual ~StepClock() = default;
  // From now on; returns the phase until now. Forward, backward, communication or update.
  virtual config::Phase enter(config::Phase phase) = 0;
};

// Counts communication for as long as it lives.
class Communicating {
 public:
  explicit Communicating(StepClock* clock)
      : clock_(clock),
        before_(clock == nullptr ? config::Phase::communication
                                 : clock->enter(config::Phase::communication)) {}
  ~Communicating() {
    if (clock_ != nullptr) clock_->enter(before_);
  }
  Communicating(const Communicating&) = delete;
  Communicating& operator=(const Communicating&) = delete;

 private:
  StepClock* clock_;
  config::Phase before_;
};

// What a rank's strategy works with. All outlive it.
struct RankContext {
  int rank = 0;
  int replicas = 1;
  backend::Replica* replica = nullptr;
  comm::Communicator* communicator = nullptr;
  const config::Options* options = nullptr;
  std::shared_ptr<Shared> shared = nullptr;
  const Assignment* assignment = nullptr;
  StepClock* clock = nullptr;  // null: nobody keeps time
  Seconds timeout{20.0};
  bool loss_scaling = false;  // gradients may overflow: an update that is refused must leave weights alone
};

// Drives one replica through a step. The engine calls, in this order: before_step; for each bucket,
// bucket_ready (from backward, last micro-step only); synchronize; apply. It stamps between the calls:
// strategies keep no time.
class RankStrategy : public backend::GradientSink {
 public:
  virtual void before_step() = 0;
  // Whether it takes a micro-step's way through forward and backward itself, with `compute`, and evaluates.
  virtual bool computes() const { return false; }
  // Tells the clock when forward and backward begin, and the sink of buckets in the last micro-step.
  virtual void compute(const backend::MicroStep&, backend::GradientSink&) {}
  virtual backend::BatchResult result() const { return {}; }  // of the step, where it computes
  virtual backend::BatchResult evaluate(const backend::Batch&) { return {}; }
  // Whether the end of backward is where a rank arrives at a collective. Where ranks wait for each other all
  // the way through a step, it is not, and nobody's lateness is told.
  virtual bool arrives() const { return true; }
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
  // Where state lies outside of the replica: brings it in before it is exported, takes it out after it was
  // imported. Called on all ranks.
  virtual void collect_state() {}
  virtual void distribute_state() {}
  // Whether it lies with the other ranks, so that each keeps its share alone: distribute_state then follows
  // every export.
  virtual bool shares_state() const { return false; }
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
  // Once a process, before anything is built: fills in what has to be measured first.
  virtual void measure_ahead(config::Options&, const model::Model&, const backend::Backend&) const {}
  // Throws a usage error for options that this strategy cannot follow.
  virtual void check(const config::Options&) const {}
  virtual Assignment assign(const AssignmentContext& context) const;
  // How it divides the model over ranks, where that is a choice of its own: "cut at conv2:48".
  virtual std::string division(const AssignmentContext&) const { return {}; }
  // Into how many shares a step's images are dealt over so many replicas; consecutive ranks have the same.
  virtual int shares(const config::Options&, int replicas) const { return replicas; }
  // One rank, on one thread, drives all devices of the run.
  virtual bool one_loop() const { return false; }
  // What is worth knowing of a run beside what every strategy has; `samples` holds all but these.
  virtual std::vector<measure::Fact> facts(const AssignmentContext&,
                                           const measure::RunSamples& /*samples*/) const {
    return {};
  }
  // Replicas whose gradients are combined in one update; 1 for asynchronous strategies.
  virtual int replicas_in_sync(const config::Options& options, int replicas) const = 0;
  virtual bool uses_collective() const = 0;            // a communicator is needed
  virtual bool uses_servers() const { return false; }  // parameter servers of the job take part
  // Ranks wait for others, so that arrival and communication are stamped.
  virtual bool communicates() const { return uses_collective(); }
  // What is exchanged are buckets of the flat buffers.
  virtual bool sends_buckets() const { return communicates(); }
  virtual bool spans_workers() const = 0;
  // "cpu", "cuda" or "tpu".
  virtual bool runs_on(const std::string& device) const { return device != "tpu"; }
  virtual int max_replicas() const = 0;  // 1 for single
};

// single (OneDeviceStrategy), mirrored (MirroredStrategy), multi-worker (MultiWorkerMirroredStrategy),
// parameter-server (ParameterServerStrategy).
const Registry<std::shared_ptr<const Strategy>>& strategies();

}  // namespace dtrain::strategy
