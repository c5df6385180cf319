#pragma once

#include <deque>
#include <map>
#include <memory>

#include "backend/replica.hpp"
#include "backend/xla/client.hpp"
#include "backend/xla/feed.hpp"
#include "backend/xla/held.hpp"
#include "backend/xla/step_program.hpp"
#include "backend/xla/timeline.hpp"
#include "backend/xla/update.hpp"

namespace dtrain::backend::xla {

// What XLA took of the time of fused steps.
struct ExecutionTime {
  std::int64_t steps = 0;
  double seconds = 0.0;  // from the call that starts a program until the last device had finished it
};

// One model on all devices of a client, each with a share of every batch: one program a step does all of it,
// the sum over devices included. Flat buffers are canonical; the spans are of the right size, but what they
// stand for is on the devices, so that they hold nothing.
class XlaReplica final : public Replica {
 public:
  // `on_cpu`: programs are written as XLA's CPU compiler does them best.
  XlaReplica(std::shared_ptr<const Client> client, const ReplicaConfig& config, int devices, bool on_cpu);
  ~XlaReplica() override;
  XlaReplica(const XlaReplica&) = delete;
  XlaReplica& operator=(const XlaReplica&) = delete;

  DeviceStream stream() const override { return {.device = 0, .stream = nullptr}; }
  InputFormat input_format() const override { return InputFormat::bytes; }
  std::span<const Slot> slots() const override { return slots_; }
  std::span<const Range> buckets() const override { return {&whole_, 1}; }
  std::span<float> weights() override { return nothing_; }
  std::span<float> gradients() override { return nothing_; }
  std::span<float> optimizer_state(int) override { return nothing_; }

  void import_statistics(std::span<const float> values) override;
  void export_statistics(std::span<float> values) override;  // the first device's
  void import_weights(std::span<const float> canonical) override;
  void export_weights(std::span<float> canonical) override;
  bool devices_agree() override;
  void export_gradients(std::span<float> canonical) override;
  void import_optimizer_state(int index, std::span<const float> canonical) override;
  void export_optimizer_state(int index, std::span<float> canonical) override;
  void clear_gradients() override;

  bool prefetch(const Batch& batch) override;
  void forget_prefetched() override { fed_.clear(); }

  bool fused() const override { return true; }
  void prepare_steps(std::span<const int> images) override;
  void fused_step(const MicroStep& micro) override;

  // The same in parts. Gradients of all devices are summed by update.
  void forward(int slot, const Batch& batch) override;
  void backward(int slot, float gradient_scale, bool first, bool last, GradientSink& sink) override;
  void update(Range range, const kernels::OptimizerStep& step, bool guarded) override;
  BatchResult result(int slot) override;
  StepOutcome outcome() override;
  BatchResult evaluate(const Batch& batch) override;

  Mark mark() override { return timeline_.mark(running_); }
  std::int64_t time_ns(Mark mark) override { return timeline_.time_ns(mark); }
  void synchronize(const Deadline& deadline) override;
  MemoryUse memory() const override;

  int programs() const { return static_cast<int>(programs_.size()); }  // compiled so far
  ExecutionTime execution_time() const { return executed_; }
  const Held& held() const { return held_; }
  const Client& client() const { return *client_; }

 private:
  struct Loaded {
    Program program;
    std::shared_ptr<const Executable> executable;
  };
  // A micro-step's numbers on their way back.
  struct Flight {
    std::vector<float> metrics;  // by device, then Metric
    std::shared_ptr<Completion> ready;
    int count = 0;
    Pass pass = Pass::step;
  };

  Fed take(const Batch& batch);
  const Loaded& loaded(const ProgramKind& kind);
  void run(const ProgramKind& kind, const Fed* fed, const Numbers& numbers);
  void download_metrics(const std::vector<std::vector<Buffer>>& results, std::size_t index, int count,
                        Pass pass);
  void begin_step();
  float sum(const Flight& flight, Metric metric) const;
  bool all(const Flight& flight, Metric metric) const;

  std::shared_ptr<const Client> client_;
  const model::Model* model_;
  std::string optimizer_;
  Target target_;
  Range whole_;
  std::vector<Slot> slots_;
  std::vector<float> nothing_;
  Held held_;
  Feed feed_;
  Timeline timeline_;
  std::map<ProgramKind, Loaded> programs_;
  std::deque<Fed> fed_;                           // prefetched
  std::map<int, Fed> flying_;                     // between forward and backward, by slot
  std::vector<std::unique_ptr<Flight>> flights_;  // of this step
  std::vector<std::unique_ptr<Flight>> late_;     // of steps before, that devices may still write to
  std::shared_ptr<Completion> running_;           // what was enqueued last; null: nothing yet
  std::int64_t started_ns_ = 0;
  bool summed_ = false;  // gradients are those of all devices
  ExecutionTime executed_;
};

}  // namespace dtrain::backend::xla
