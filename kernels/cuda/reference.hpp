#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/compress.hpp"
#include "kernels/cuda/take_gradients.hpp"

namespace dtrain::kernels::cuda {

// The definitions of the kernels that have none in kernels/: plain loops over values as floats, what tests
// hold the kernels against.

float round_to_reference(float value, Element element);

// mean, variance, gamma and beta hold one value a channel; in double precision.
void batch_norm_inference_reference(std::span<const float> x, std::span<float> y, std::span<const float> mean,
                                    std::span<const float> variance, std::span<const float> gamma,
                                    std::span<const float> beta, float epsilon, bool relu);

void take_gradients_reference(std::span<const float> from, std::span<float> to,
                              std::span<const Segment> segments, bool add);

void compress_reference(std::span<const float> values, std::span<float> residual, std::span<float> to,
                        Element element);

std::vector<Pair> top_k_reference(std::span<const float> values, std::span<float> residual, std::size_t k);

}  // namespace dtrain::kernels::cuda
