#pragma once

#include <cstddef>
#include <span>

namespace dtrain::kernels {

// Both write, for every i in [offset, offset + count), the sum over all `buffers` at i, added in the order of
// the list, so that the result does not depend on who computes it or when. The buffers hold at least
// offset + count values each and do not overlap.
void sum_into_all(std::span<float* const> buffers, std::size_t offset, std::size_t count);
void sum_into_one(std::span<float* const> buffers, std::size_t target, std::size_t offset, std::size_t count);

// Plain loops with the same bits, what tests hold the fast ones against.
void sum_into_all_reference(std::span<float* const> buffers, std::size_t offset, std::size_t count);

}  // namespace dtrain::kernels
