#include "parameter_server/storage.hpp"

#include <algorithm>

namespace dtrain::parameter_server {

Storage::Storage(const std::string& optimizer, std::size_t floats)
    : size_(floats), chunks_(std::max<std::size_t>(1, (floats + chunk_floats - 1) / chunk_floats)) {
  const kernels::Optimizer& chosen = kernels::optimizers().at(optimizer).value;
  update_ = chosen.update;
  for (int part = 0; part < 1 + chosen.states; ++part) parts_.emplace_back(floats);
}

backend::Range Storage::chunk(int index) const {
  const std::size_t offset = static_cast<std::size_t>(index) * chunk_floats;
  return {offset, std::min(chunk_floats, size_ - offset)};
}

std::span<float> Storage::part_of(std::size_t part, int chunk_index) {
  if (part >= parts_.size()) return {};
  const backend::Range range = chunk(chunk_index);
  return parts_[part].span().subspan(range.offset, range.size);
}

Storage::Update Storage::update(int index, std::span<const float> gradients, kernels::OptimizerStep step) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(index)];
  const std::lock_guard lock(chunk.mutex);
  if (chunk.steps == 0) chunk.first_step = step.step;
  step.step = chunk.first_step + static_cast<long>(chunk.steps);
  const std::span<float> weights = part_of(0, index);
  Update done{.version = chunk.version};
  done.finite = update_(weights, gradients, part_of(1, index), part_of(2, index), step);
  done.weights_finite = kernels::all_finite(weights);
  ++chunk.steps;
  ++chunk.version;
  return done;
}

std::uint64_t Storage::skip(int index) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(index)];
  const std::lock_guard lock(chunk.mutex);
  return chunk.version++;
}

std::uint64_t Storage::version(int index) const {
  const Chunk& chunk = chunks_[static_cast<std::size_t>(index)];
  const std::lock_guard lock(chunk.mutex);
  return chunk.version;
}

std::uint64_t Storage::read(int part, int index, std::span<float> values) const {
  const Chunk& chunk = chunks_[static_cast<std::size_t>(index)];
  const backend::Range range = this->chunk(index);
  const std::lock_guard lock(chunk.mutex);
  std::copy_n(parts_[static_cast<std::size_t>(part)].data() + range.offset, range.size, values.data());
  return chunk.version;
}

void Storage::write(int part, int index, std::span<const float> values) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(index)];
  const std::lock_guard lock(chunk.mutex);
  std::ranges::copy(values, part_of(static_cast<std::size_t>(part), index).begin());
  chunk.steps = 0;
}

}  // namespace dtrain::parameter_server
