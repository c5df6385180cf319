#pragma once

#include <map>
#include <optional>
#include <vector>

#include "backend/buckets.hpp"
#include "backend/cuda/drain.hpp"
#include "backend/cuda/input.hpp"
#include "backend/cuda/program.hpp"
#include "backend/cuda/recorder.hpp"
#include "backend/cuda/replica_memory.hpp"
#include "backend/cuda/timeline.hpp"
#include "backend/replica.hpp"
#include "kernels/cuda/update.hpp"

namespace dtrain::backend::cuda {

class CudaReplica final : public Replica {
 public:
  explicit CudaReplica(const ReplicaConfig& config);

  DeviceStream stream() const override { return {config_.device, stream_.get()}; }
  InputFormat input_format() const override {
    return dataset_held_ ? InputFormat::records : InputFormat::bytes;
  }
  bool hold_dataset(const datasets::Dataset& dataset) override;
  std::span<const Slot> slots() const override { return slots_; }
  std::span<const Range> buckets() const override { return buckets_.buckets; }
  std::span<float> weights() override { return weights_; }
  std::span<float> gradients() override { return gradients_; }
  std::span<float> optimizer_state(int index) override { return states_[static_cast<std::size_t>(index)]; }

  void import_statistics(std::span<const float> values) override;
  void export_statistics(std::span<float> values) override;
  void import_weights(std::span<const float> canonical) override;
  void export_weights(std::span<float> canonical) override { fetch(weights_, canonical); }
  void export_gradients(std::span<float> canonical) override { fetch(gradients_, canonical); }
  void import_optimizer_state(int index, std::span<const float> canonical) override;
  void export_optimizer_state(int index, std::span<float> canonical) override;

  void clear_gradients() override;
  bool prefetch(const Batch& batch) override;
  void forget_prefetched() override { input_->clear(); }
  void run(const MicroStep& step, bool record, const std::function<void()>& enqueue) override;
  void forget_recorded() override { recorder_->clear(); }
  void forward(int slot, const Batch& batch) override;
  void backward(int slot, float gradient_scale, bool first, bool last, GradientSink& sink) override;
  BatchResult result(int slot) override;
  void update(Range range, const kernels::OptimizerStep& step, bool guarded) override;
  StepOutcome outcome() override;
  BatchResult evaluate(const Batch& batch) override;

  Mark mark() override;
  std::int64_t time_ns(Mark mark) override { return timeline_->time_ns(mark); }
  void synchronize(const Deadline& deadline) override;
  MemoryUse memory() const override { return {memory_->taken(), memory_->peak()}; }

 private:
  // Set by run(): the numbers of the micro-step are on the device already, and calls must not send them
  // again.
  enum class Numbers { by_call, by_run };

  void allocate(const Program& largest);
  Program& program(int slot, int count);
  void begin(bool first, int count);
  void bring_in(const Batch& batch);
  void send_numbers(bool clear);
  void announce(std::size_t bucket, bool add, GradientSink& sink);
  void move_staged(Range range, bool add);
  void upload(std::span<const float> canonical, std::span<float> flat);
  void fetch(std::span<const float> flat, std::span<float> canonical);
  void read_outcome();
  void settle();

  ReplicaConfig config_;
  Element element_;
  kernels::cuda::UpdateRule rule_;
  FlatLayout layout_;
  std::vector<Slot> slots_;
  BucketPlan buckets_;

  Stream stream_;  // everything but copies of batches
  Stream side_;    // reads an outcome past work that hangs
  std::unique_ptr<DeviceMemory> memory_;
  std::span<float> weights_;
  std::span<float> gradients_;
  std::vector<std::span<float>> states_;
  std::span<float> statistics_;
  std::span<std::byte> workspace_;
  FlatBuffers flat_;
  std::vector<std::byte*> arenas_;  // by slot
  std::size_t arena_bytes_ = 0;
  kernels::cuda::StepBlock* block_ = nullptr;
  kernels::cuda::StepOutcome* outcome_ = nullptr;
  kernels::cuda::StepOutcome* evaluation_ = nullptr;
  PinnedArray<kernels::cuda::StepOutcome> seen_;  // [0] the step's, [1] an evaluation's

  std::optional<Plans> plans_;
  std::optional<InputQueue> input_;
  std::optional<InputQueue> evaluation_input_;  // made when first needed
  std::optional<Timeline> timeline_;
  std::optional<Recorder> recorder_;
  std::vector<std::map<int, std::unique_ptr<Program>>> programs_;  // by slot, then images
  std::vector<Program*> flights_;                                  // by slot
  std::vector<Event> bucket_events_;
  Event finished_;

  kernels::cuda::StepBlock numbers_;  // as they are on the device
  Numbers numbers_from_ = Numbers::by_call;
  int images_ = 0;  // of the step so far
  bool outcome_current_ = false;
  bool dataset_held_ = false;
  Drain drain_{stream_};  // last: goes first
  Drain side_drain_{side_};
};

}  // namespace dtrain::backend::cuda
