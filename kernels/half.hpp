#pragma once

#include <cstdint>
#include <span>

namespace dtrain::kernels {

// Numbers of 16 bits: IEEE half precision (largest 65504) and bfloat16 (the upper half of a float).
enum class HalfFormat { fp16, bf16 };

// to[i] = values[i] + residual[i], rounded to nearest, ties to even; the residual becomes what rounding lost.
// Finite values beyond the format's largest become the largest; a value that is not finite stays so and
// leaves a residual of 0. Spans are of one length; none overlap.
void compress_to_half(std::span<const float> values, std::span<float> residual, std::span<std::uint16_t> to,
                      HalfFormat format);
void expand_half(std::span<const std::uint16_t> from, std::span<float> to, HalfFormat format);
void add_half(std::span<const std::uint16_t> from, std::span<float> to, HalfFormat format);

// Plain arithmetic on the numbers' meaning with the same bits (but for those of a NaN), what tests hold the
// fast ones against.
void compress_to_half_reference(std::span<const float> values, std::span<float> residual,
                                std::span<std::uint16_t> to, HalfFormat format);
float half_value_reference(std::uint16_t half, HalfFormat format);

}  // namespace dtrain::kernels
