#include "backend/cuda/replica.hpp"

#include "backend/cuda/cuda_replica.hpp"
#include "base/error.hpp"
#include "kernels/cuda/cast.hpp"
#include "kernels/cuda/check_finite.hpp"
#include "kernels/cuda/fill_optimizer.hpp"
#include "kernels/cuda/set_step.hpp"
#include "kernels/cuda/take_gradients.hpp"

namespace dtrain::backend::cuda {

namespace {

constexpr Seconds patience{20.0};  // for what takes milliseconds where the caller names no deadline

kernels::cuda::UpdateRule rule_of(const std::string& optimizer) {
  return kernels::optimizers().at(optimizer).value.states > 1 ? kernels::cuda::UpdateRule::adam
                                                              : kernels::cuda::UpdateRule::sgd;
}

}  // namespace

CudaReplica::CudaReplica(const ReplicaConfig& config)
    : config_(config),
      element_(element_of(config.precision)),
      rule_(rule_of(config.optimizer)),
      layout_(*config.model, image_channels(element_)),
      slots_(layout_.slots()),
      buckets_(plan_buckets(*config.model, slots_, layout_.size(), config.bucket_bytes)),
      programs_(static_cast<std::size_t>(config.slots)),
      flights_(static_cast<std::size_t>(config.slots)) {
  DTRAIN_CUDA(cudaSetDevice(config_.device));  // for the thread that the replica belongs to
  stream_ = make_stream();
  side_ = make_stream(Urgency::urgent);
  finished_ = make_event();
  for (std::size_t bucket = 0; bucket < buckets_.buckets.size(); ++bucket)
    bucket_events_.push_back(make_event());
  auto largest = std::make_unique<Program>(*config_.model, layout_, config_.max_batch, element_);
  allocate(*largest);
  timeline_.emplace(stream_.get());
  recorder_.emplace(stream_.get());
  plans_.emplace(stream_.get(), policy_of(config_), workspace_, config_.plan_cache);
  largest->bind(arenas_[0], flat_, *plans_, stream_.get());
  plans_->save();
  programs_[0][config_.max_batch] = std::move(largest);
  DTRAIN_CUDA(cudaMemsetAsync(gradients_.data(), 0, gradients_.size_bytes(), stream_.get()));
  import_statistics(model::initial_statistics(*config_.model));
  settle();
}

void CudaReplica::allocate(const Program& largest) {
  const MemoryNeed need = memory_need(config_, layout_, largest);
  const MemoryPolicy policy{
      .allocator = config_.allocator, .growth = config_.memory_growth, .limit = config_.memory_limit};
  memory_ = std::make_unique<DeviceMemory>(config_.device, stream_.get(), policy, need.total());
  const std::size_t size = layout_.size();
  weights_ = memory_->take_array<float>(size);
  gradients_ = memory_->take_array<float>(size);
  for (int s = 0; s < kernels::optimizers().at(config_.optimizer).value.states; ++s) {
    states_.push_back(memory_->take_array<float>(size));
    DTRAIN_CUDA(cudaMemsetAsync(states_.back().data(), 0, states_.back().size_bytes(), stream_.get()));
  }
  const std::size_t elements = size * kernels::cuda::size_of(element_);
  statistics_ = memory_->take_array<float>(config_.model->statistic_count);
  workspace_ = memory_->take_array<std::byte>(need.workspace);
  flat_ = {.weights = weights_.data(),
           .compute_weights = element_ == Element::f32 ? weights_.data() : memory_->take(elements),
           .gradients = gradients_.data(),
           .staged_gradients = memory_->take(elements),
           .statistics = statistics_.data()};
  arena_bytes_ = largest.arena_bytes();
  for (int slot = 0; slot < config_.slots; ++slot) {
    arenas_.push_back(memory_->take_array<std::byte>(arena_bytes_).data());
  }
  block_ = memory_->take_array<kernels::cuda::StepBlock>(1).data();
  outcome_ = memory_->take_array<kernels::cuda::StepOutcome>(1).data();
  evaluation_ = memory_->take_array<kernels::cuda::StepOutcome>(1).data();
  input_.emplace(*memory_, config_.max_batch);
  seen_ = PinnedArray<kernels::cuda::StepOutcome>(2);
}

Program& CudaReplica::program(int slot, int count) {
  auto& entry = programs_[static_cast<std::size_t>(slot)][count];
  if (entry) return *entry;
  if (count > config_.max_batch) throw std::logic_error("replica fed with more images than it was made for");
  auto made = std::make_unique<Program>(*config_.model, layout_, count, element_);
  std::byte* arena = arenas_[static_cast<std::size_t>(slot)];
  if (made->arena_bytes() > arena_bytes_) arena = memory_->take_array<std::byte>(made->arena_bytes()).data();
  // Tuning overwrites gradients, which may hold those of earlier micro-steps.
  std::vector<float> kept(gradients_.size());
  DTRAIN_CUDA(cudaMemcpyAsync(kept.data(), gradients_.data(), gradients_.size_bytes(), cudaMemcpyDeviceToHost,
                              stream_.get()));
  made->bind(arena, flat_, *plans_, stream_.get());
  DTRAIN_CUDA(cudaMemcpyAsync(gradients_.data(), kept.data(), gradients_.size_bytes(), cudaMemcpyHostToDevice,
                              stream_.get()));
  settle();
  plans_->save();
  entry = std::move(made);
  return *entry;
}

bool CudaReplica::hold_dataset(const datasets::Dataset& dataset) {
  const std::size_t records = dataset.size();
  std::span<std::uint8_t> device_pixels;
  std::span<std::int32_t> device_labels;
  try {
    device_pixels = memory_->take_array<std::uint8_t>(records * datasets::pixels_per_image);
    device_labels = memory_->take_array<std::int32_t>(records);
  } catch (const OutOfMemory&) {
    return false;
  }
  std::vector<std::uint8_t> pixels(device_pixels.size());
  std::vector<std::int32_t> labels(records);
  for (std::size_t record = 0; record < records; ++record) {
    std::ranges::copy(dataset.pixels(record), pixels.data() + record * datasets::pixels_per_image);
    labels[record] = dataset.label(record);
  }
  DTRAIN_CUDA(cudaMemcpyAsync(device_pixels.data(), pixels.data(), device_pixels.size_bytes(),
                              cudaMemcpyHostToDevice, stream_.get()));
  DTRAIN_CUDA(cudaMemcpyAsync(device_labels.data(), labels.data(), device_labels.size_bytes(),
                              cudaMemcpyHostToDevice, stream_.get()));
  settle();
  input_->refer_to(device_pixels.data(), device_labels.data());
  dataset_held_ = true;
  return true;
}

void CudaReplica::upload(std::span<const float> canonical, std::span<float> flat) {
  std::vector<float> ordered(flat.size());
  layout_.to_flat(canonical, ordered);
  DTRAIN_CUDA(
      cudaMemcpyAsync(flat.data(), ordered.data(), flat.size_bytes(), cudaMemcpyHostToDevice, stream_.get()));
  settle();
}

void CudaReplica::fetch(std::span<const float> flat, std::span<float> canonical) {
  std::vector<float> ordered(flat.size());
  DTRAIN_CUDA(
      cudaMemcpyAsync(ordered.data(), flat.data(), flat.size_bytes(), cudaMemcpyDeviceToHost, stream_.get()));
  settle();
  layout_.to_canonical(ordered, canonical);
}

void CudaReplica::import_weights(std::span<const float> canonical) {
  upload(canonical, weights_);
  if (element_ == Element::f32) return;
  DTRAIN_CUDA(kernels::cuda::cast_from_float(weights_.data(), flat_.compute_weights, element_,
                                             weights_.size(), stream_.get()));
}

void CudaReplica::import_optimizer_state(int index, std::span<const float> canonical) {
  upload(canonical, optimizer_state(index));
}

void CudaReplica::export_optimizer_state(int index, std::span<float> canonical) {
  fetch(optimizer_state(index), canonical);
}

void CudaReplica::import_statistics(std::span<const float> values) {
  DTRAIN_CUDA(cudaMemcpyAsync(statistics_.data(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice,
                              stream_.get()));
  settle();
}

void CudaReplica::export_statistics(std::span<float> values) {
  DTRAIN_CUDA(cudaMemcpyAsync(values.data(), statistics_.data(), values.size_bytes(), cudaMemcpyDeviceToHost,
                              stream_.get()));
  settle();
}

void CudaReplica::settle() {
  DTRAIN_CUDA(cudaEventRecord(finished_.get(), stream_.get()));
  if (wait_for(finished_.get(), Deadline::in(patience))) return;
  throw run_error(fmt::format("GPU {} has not answered for {:g} s", config_.device, patience.count()),
                  "look at `dtrain info` and the system's log for a failed GPU");
}

std::unique_ptr<Replica> make_cuda_replica(const ReplicaConfig& config) {
  try {
    return std::make_unique<CudaReplica>(config);
  } catch (const OutOfMemory& failure) {
    throw_out_of_memory(config, failure);
  }
}

}  // namespace dtrain::backend::cuda
