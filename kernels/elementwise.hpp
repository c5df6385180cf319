#pragma once

#include <span>

namespace dtrain::kernels {

void relu(std::span<const float> x, std::span<float> y);
// dy becomes 0 where y is not positive; y is the output of the ReLU.
void relu_backward(std::span<const float> y, std::span<float> dy);
void add(std::span<const float> a, std::span<const float> b, std::span<float> sum);
void accumulate(std::span<const float> from, std::span<float> into);

// Rounds to the nearest bfloat16 value (ties to even), kept as float: the values a bfloat16 tensor would
// hold.
void round_to_bf16(std::span<const float> x, std::span<float> y);

}  // namespace dtrain::kernels
