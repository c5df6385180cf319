#pragma once

#include <list>
#include <map>

#include "backend/buckets.hpp"
#include "backend/cpu/collective_ops.hpp"
#include "backend/cpu/flat_memory.hpp"
#include "backend/cpu/program.hpp"
#include "backend/cpu/rounding_source.hpp"
#include "backend/cpu/team.hpp"
#include "backend/replica.hpp"
#include "base/aligned_buffer.hpp"

namespace dtrain::backend::cpu {

class CpuReplica final : public Replica {
 public:
  explicit CpuReplica(const ReplicaConfig& config);

  // Bytes that a replica of this configuration takes, without taking them.
  static std::size_t estimate(const ReplicaConfig& config);

  InputFormat input_format() const override { return InputFormat::nchw; }
  std::span<const Slot> slots() const override { return slots_; }
  std::span<const Range> buckets() const override { return buckets_.buckets; }
  std::span<float> weights() override { return weights_.span(); }
  std::span<float> gradients() override { return gradients_.span(); }
  std::span<float> optimizer_state(int index) override {
    return states_[static_cast<std::size_t>(index)].span();
  }

  void import_statistics(std::span<const float> values) override;
  void export_statistics(std::span<float> values) override;
  void import_weights(std::span<const float> canonical) override;
  void export_weights(std::span<float> canonical) override;
  void export_gradients(std::span<float> canonical) override;
  void import_optimizer_state(int index, std::span<const float> canonical) override;
  void export_optimizer_state(int index, std::span<float> canonical) override;

  void forward(int slot, const Batch& batch) override;
  void backward(int slot, float gradient_scale, bool first, bool last, GradientSink& sink) override;
  BatchResult result(int slot) override;
  void clear_gradients() override;
  void update(Range range, const kernels::OptimizerStep& step, bool guarded) override;
  StepOutcome outcome() override { return outcome_; }
  BatchResult evaluate(const Batch& batch) override;
  void connect(Collective& collective) override { link_.connect(collective); }

  std::span<const float> output(int slot) override { return in_flight(slot).output(); }
  std::span<float> output_gradient(int slot) override { return in_flight(slot).output_gradient(); }
  std::span<const float> input_gradient(int slot) override { return in_flight(slot).input_gradient(); }

  void release(FlatBuffer buffer, Range range) override;
  void set_weight_source(WeightSource* source) override;

  Mark mark() override { return {now_ns()}; }
  std::int64_t time_ns(Mark mark) override { return mark.value; }
  void synchronize(const Deadline&) override {}
  MemoryUse memory() const override;

 private:
  struct Flight {  // a micro-batch between forward and backward
    Program* program = nullptr;
    std::span<const std::int32_t> labels;
    BatchResult result;  // of the step so far
  };

  Program& program(int slot, int count);
  const Program& in_flight(int slot) const { return *flights_[static_cast<std::size_t>(slot)].program; }
  WeightSource* source() { return rounding_ ? &*rounding_ : source_; }
  void begin(bool first);
  void announce(std::size_t bucket, GradientSink& sink);
  void refresh_compute_weights();
  void convert(std::span<const float> canonical, std::span<float> flat);
  void convert_back(std::span<const float> flat, std::span<float> canonical);

  const model::Model* model_;
  const kernels::Optimizer* optimizer_;
  Team team_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  CollectiveLink link_;
  bool round_bf16_;
  bool check_buckets_;
  bool gives_loss_;
  bool wants_input_gradient_;
  int max_batch_;
  FlatLayout layout_;
  BucketPlan buckets_;
  std::vector<Slot> slots_;
  FlatMemory weights_;
  FlatMemory compute_weights_;  // rounded copy; empty in fp32
  FlatMemory gradients_;
  std::vector<FlatMemory> states_;
  AlignedBuffer<float> statistics_;
  std::vector<AlignedBuffer<std::byte>> arenas_;                   // by slot
  std::list<AlignedBuffer<std::byte>> extra_arenas_;               // of programs that do not fit there
  std::vector<std::map<int, std::unique_ptr<Program>>> programs_;  // by slot, then images
  std::vector<Flight> flights_;
  StepOutcome outcome_;
  bool compute_weights_stale_ = true;
  const bool weights_come_and_go_;
  WeightSource* source_ = nullptr;
  std::optional<RoundingSource>
      rounding_;           // around the source given, where weights are rounded and come and go
  bool in_steps_ = false;  // what is there is what steps need; otherwise the whole state may be
};

}  // namespace dtrain::backend::cpu
