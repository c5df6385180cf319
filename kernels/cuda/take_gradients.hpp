#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/element.hpp"

namespace dtrain::kernels::cuda {

inline constexpr std::size_t max_segments = 32;

// In elements.
struct Segment {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t size = 0;
};

// Copies segments of gradients, `from` of `element`, into the flat buffer `to`, or with `add` adds them. Sets
// *flag to 1 if a value so written is infinite or NaN (null: is not asked). Fast where offsets are multiples
// of 8 and the arrays aligned to 16 bytes. The list is copied at the call; more than max_segments are
// cudaErrorInvalidValue.
cudaError_t take_gradients(const void* from, Element element, float* to, std::span<const Segment> segments,
                           bool add, std::int32_t* flag, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
