#include "backend/cuda/check.hpp"
#include "backend/cuda/cuda_replica.hpp"
#include "backend/make_replica.hpp"
#include "results_folder.hpp"

namespace dtrain::testing {

namespace {

using backend::Batch;
using backend::Range;

// A replica on a GPU whose gradients and optimizer state the host may touch, as the contract's tests do: they
// are copied out when asked for, and gradients back before they are next used.
class HostViews final : public backend::Replica {
 public:
  explicit HostViews(std::unique_ptr<backend::Replica> replica) : replica_(std::move(replica)) {}

  std::span<float> gradients() override {
    fetch(replica_->gradients(), gradients_);
    lent_ = true;
    return gradients_;
  }
  std::span<float> optimizer_state(int index) override {
    const auto place = static_cast<std::size_t>(index);
    if (states_.size() <= place) states_.resize(place + 1);
    fetch(replica_->optimizer_state(index), states_[place]);
    return states_[place];
  }

  void export_gradients(std::span<float> canonical) override { returned().export_gradients(canonical); }
  void clear_gradients() override { returned().clear_gradients(); }
  void backward(int slot, float scale, bool first, bool last, backend::GradientSink& sink) override {
    returned().backward(slot, scale, first, last, sink);
  }
  void update(Range range, const kernels::OptimizerStep& step, bool guarded) override {
    returned().update(range, step, guarded);
  }
  void run(const backend::MicroStep& step, bool record, const std::function<void()>& enqueue) override {
    returned().run(step, record, enqueue);
  }

  backend::DeviceStream stream() const override { return replica_->stream(); }
  backend::InputFormat input_format() const override { return replica_->input_format(); }
  bool hold_dataset(const datasets::Dataset& dataset) override { return replica_->hold_dataset(dataset); }
  std::span<const backend::Slot> slots() const override { return replica_->slots(); }
  std::span<const Range> buckets() const override { return replica_->buckets(); }
  std::span<float> weights() override { return replica_->weights(); }
  void import_statistics(std::span<const float> values) override { replica_->import_statistics(values); }
  void export_statistics(std::span<float> values) override { replica_->export_statistics(values); }
  void import_weights(std::span<const float> canonical) override { replica_->import_weights(canonical); }
  void export_weights(std::span<float> canonical) override { replica_->export_weights(canonical); }
  void import_optimizer_state(int index, std::span<const float> canonical) override {
    replica_->import_optimizer_state(index, canonical);
  }
  void export_optimizer_state(int index, std::span<float> canonical) override {
    replica_->export_optimizer_state(index, canonical);
  }
  bool prefetch(const Batch& batch) override { return replica_->prefetch(batch); }
  void forget_prefetched() override { replica_->forget_prefetched(); }
  void forward(int slot, const Batch& batch) override { replica_->forward(slot, batch); }
  backend::BatchResult result(int slot) override { return replica_->result(slot); }
  backend::StepOutcome outcome() override { return replica_->outcome(); }
  backend::BatchResult evaluate(const Batch& batch) override { return replica_->evaluate(batch); }
  backend::Mark mark() override { return replica_->mark(); }
  std::int64_t time_ns(backend::Mark mark) override { return replica_->time_ns(mark); }
  void synchronize(const Deadline& deadline) override { replica_->synchronize(deadline); }
  backend::MemoryUse memory() const override { return replica_->memory(); }

 private:
  void settle() { DTRAIN_CUDA(cudaStreamSynchronize(static_cast<cudaStream_t>(replica_->stream().stream))); }

  void fetch(std::span<const float> device, std::vector<float>& host) {
    settle();
    host.resize(device.size());
    DTRAIN_CUDA(cudaMemcpy(host.data(), device.data(), device.size_bytes(), cudaMemcpyDeviceToHost));
  }

  // The replica, with what the host has made of its gradients.
  backend::Replica& returned() {
    if (lent_) {
      settle();
      DTRAIN_CUDA(cudaMemcpy(replica_->gradients().data(), gradients_.data(),
                             gradients_.size() * sizeof(float), cudaMemcpyHostToDevice));
      DTRAIN_CUDA(cudaStreamSynchronize(nullptr));
      lent_ = false;
    }
    return *replica_;
  }

  std::unique_ptr<backend::Replica> replica_;
  std::vector<float> gradients_;
  std::vector<std::vector<float>> states_;
  bool lent_ = false;
};

}  // namespace

// Deterministic: the first plan that works is taken. Results repeat, and a hundred replicas are not tuned one
// after the other.
std::unique_ptr<backend::Replica> make_replica(const backend::ReplicaConfig& config) {
  backend::ReplicaConfig there = config;
  there.deterministic = true;
  there.plan_cache = results_folder() / "plans_of_tests";
  return std::make_unique<HostViews>(backend::cuda::make_cuda_replica(there));
}

int golden_steps() { return 200; }

}  // namespace dtrain::testing
