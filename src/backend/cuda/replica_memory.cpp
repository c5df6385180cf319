#include "backend/cuda/replica_memory.hpp"

#include "backend/cuda/cuda_replica.hpp"
#include "backend/cuda/input.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "kernels/optimizer.hpp"

namespace dtrain::backend::cuda {

namespace {

constexpr std::size_t most_workspace = 256 * mib;

// Under a limit the workspace is a modest part of it.
std::size_t workspace_bytes(const ReplicaConfig& config) {
  constexpr std::size_t least = 8 * mib;
  if (config.memory_limit == 0) return most_workspace;
  return std::clamp(config.memory_limit / 8, least, most_workspace);
}

std::size_t flat_bytes(const ReplicaConfig& config, const FlatLayout& layout) {
  const auto states = static_cast<std::size_t>(kernels::optimizers().at(config.optimizer).value.states);
  const std::size_t masters = (2 + states) * DeviceMemory::padded(layout.size() * sizeof(float));
  const Element element = element_of(config.precision);
  const std::size_t elements = DeviceMemory::padded(layout.size() * kernels::cuda::size_of(element));
  return masters + (element == Element::f32 ? 1 : 2) * elements;  // staged gradients, weight copy
}

}  // namespace

Element element_of(config::Precision precision) {
  switch (precision) {
    case config::Precision::fp32:
    case config::Precision::tf32:
      return Element::f32;
    case config::Precision::bf16:
      return Element::bf16;
    case config::Precision::fp16:
      return Element::f16;
  }
  throw std::logic_error("a precision without an element");
}

Policy policy_of(const ReplicaConfig& config) {
  return {.true_fp32 = config.precision == config::Precision::fp32,
          .deterministic = config.deterministic,
          .workspace_limit = workspace_bytes(config)};
}

MemoryNeed memory_need(const ReplicaConfig& config, const FlatLayout& layout, const Program& program) {
  MemoryNeed need;
  need.flat = flat_bytes(config, layout);
  need.arena = static_cast<std::size_t>(config.slots) * DeviceMemory::padded(program.arena_bytes());
  need.input = InputQueue::device_bytes(config.max_batch);
  need.workspace = DeviceMemory::padded(workspace_bytes(config));
  need.rest =
      4 * DeviceMemory::alignment + DeviceMemory::padded(config.model->statistic_count * sizeof(float));
  return need;
}

std::size_t estimate_cuda_memory(const ReplicaConfig& config) {
  const Element element = element_of(config.precision);
  const FlatLayout layout(*config.model, image_channels(element));
  // Buffers grow in proportion to the images, so a small program tells the size of a large one.
  constexpr int small = 64;
  const auto bytes_for = [&](int count) {
    ReplicaConfig sized = config;
    sized.max_batch = count;
    return static_cast<double>(
        memory_need(sized, layout, Program(*config.model, layout, count, element)).total());
  };
  if (config.max_batch <= small) return static_cast<std::size_t>(bytes_for(config.max_batch));
  const double slope = (bytes_for(2 * small) - bytes_for(small)) / small;
  return static_cast<std::size_t>(bytes_for(small) + slope * (config.max_batch - small));
}

void throw_out_of_memory(const ReplicaConfig& config, const OutOfMemory& failure) {
  const std::size_t there = failure.taken + failure.free;
  ReplicaConfig smaller = config;
  int fits = 0;
  for (int low = 1, high = config.max_batch; low <= high;) {
    smaller.max_batch = low + (high - low) / 2;
    if (estimate_cuda_memory(smaller) <= there) {
      fits = smaller.max_batch;
      low = smaller.max_batch + 1;
    } else {
      high = smaller.max_batch - 1;
    }
  }
  const auto bytes = [](std::size_t count) { return format_bytes(static_cast<double>(count)); };
  throw environment_error(
      fmt::format(
          "GPU {}: out of memory: asked for {} more, {} are free; a replica with {} images needs about {}",
          config.device, bytes(failure.asked), bytes(failure.free), config.max_batch,
          bytes(estimate_cuda_memory(config))),
      fits > 0 && fits < config.max_batch
          ? fmt::format("the largest batch that fits is --batch-size {}", fits)
          : "free memory on the GPU (`dtrain info` lists what uses it), or raise --memory-limit");
}

}  // namespace dtrain::backend::cuda
