#include "kernels/elementwise.hpp"

#include <bit>
#include <cstdint>

#include "kernels/dispatch.hpp"

namespace dtrain::kernels {

namespace {

DTRAIN_DISPATCH void relu_loop(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] < 0.0F ? 0.0F : x[i];
}

DTRAIN_DISPATCH void relu_backward_loop(const float* __restrict y, float* __restrict dy, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) dy[i] = y[i] > 0.0F ? dy[i] : 0.0F;
}

DTRAIN_DISPATCH void add_loop(const float* a, const float* b, float* __restrict sum, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

DTRAIN_DISPATCH void accumulate_loop(const float* __restrict from, float* __restrict into,
                                     std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] += from[i];
}

DTRAIN_DISPATCH void round_loop(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(x[i]);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U;
    const bool finite = (bits & 0x7f800000U) != 0x7f800000U;  // NaN must not round to infinity
    y[i] = std::bit_cast<float>(finite ? rounded : bits);
  }
}

}  // namespace

void relu(std::span<const float> x, std::span<float> y) { relu_loop(x.data(), y.data(), x.size()); }

void relu_backward(std::span<const float> y, std::span<float> dy) {
  relu_backward_loop(y.data(), dy.data(), y.size());
}

void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) {
  add_loop(a.data(), b.data(), sum.data(), sum.size());
}

void accumulate(std::span<const float> from, std::span<float> into) {
  accumulate_loop(from.data(), into.data(), into.size());
}

void round_to_bf16(std::span<const float> x, std::span<float> y) { round_loop(x.data(), y.data(), x.size()); }

}  // namespace dtrain::kernels
