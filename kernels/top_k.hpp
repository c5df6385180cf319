#pragma once

#include <cstdint>
#include <span>

namespace dtrain::kernels {

// One entry of an array that is mostly left out.
struct Pair {
  std::uint32_t index;
  float value;
};

// Adds `values` to `residual`, moves the pairs.size() entries of the residual with the largest magnitude (the
// first of equals; NaN is larger than infinity) to `pairs`, ascending in index, and leaves 0 in their place.
// pairs.size() <= values.size() < 2^32. Streams through the residual four times, whatever is in it.
void top_k(std::span<const float> values, std::span<float> residual, std::span<Pair> pairs);

// values[pair.index] += pair.value
void scatter_add(std::span<const Pair> pairs, std::span<float> values);

// By sorting; the same pairs.
void top_k_reference(std::span<const float> values, std::span<float> residual, std::span<Pair> pairs);

}  // namespace dtrain::kernels
