#include "kernels/cuda/reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace dtrain::kernels::cuda {

namespace {

// What an element's numbers are made of: bits of the fraction, exponents of the largest and the least normal.
struct Format {
  int fraction;
  int largest;
  int least;
};

Format format_of(Element element) {
  if (element == Element::bf16) return {7, 127, -126};
  if (element == Element::f16) return {10, 15, -14};
  return {23, 127, -126};
}

double largest_of(Element element) {
  const Format format = format_of(element);
  return std::ldexp(2.0 - std::ldexp(1.0, -format.fraction), format.largest);
}

}  // namespace

float round_to_reference(float value, Element element) {
  if (!std::isfinite(value) || value == 0.0F) return value;
  const Format format = format_of(element);
  const int exponent = std::max(std::ilogb(value), format.least) - format.fraction;
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(value), -exponent)), exponent);
  if (std::abs(rounded) > largest_of(element)) {
    return std::copysign(std::numeric_limits<float>::infinity(), value);
  }
  return static_cast<float>(rounded);
}

void batch_norm_inference_reference(std::span<const float> x, std::span<float> y, std::span<const float> mean,
                                    std::span<const float> variance, std::span<const float> gamma,
                                    std::span<const float> beta, float epsilon, bool relu) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % mean.size();
    const double deviation = std::sqrt(static_cast<double>(variance[c]) + epsilon);
    const double value = (static_cast<double>(x[i]) - mean[c]) / deviation * gamma[c] + beta[c];
    y[i] = static_cast<float>(relu && value < 0.0 ? 0.0 : value);
  }
}

void take_gradients_reference(std::span<const float> from, std::span<float> to,
                              std::span<const Segment> segments, bool add) {
  for (const Segment& segment : segments) {
    for (std::size_t i = 0; i < segment.size; ++i) {
      float& target = to[segment.to + i];
      target = from[segment.from + i] + (add ? target : 0.0F);
    }
  }
}

void compress_reference(std::span<const float> values, std::span<float> residual, std::span<float> to,
                        Element element) {
  const auto largest = static_cast<float>(largest_of(element));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float exact = values[i] + residual[i];
    const bool finite = std::isfinite(exact);
    to[i] = finite ? round_to_reference(std::clamp(exact, -largest, largest), element) : exact;
    residual[i] = finite ? exact - to[i] : 0.0F;
  }
}

std::vector<Pair> top_k_reference(std::span<const float> values, std::span<float> residual, std::size_t k) {
  for (std::size_t i = 0; i < values.size(); ++i) residual[i] += values[i];
  const auto magnitude = [&](std::uint32_t i) {
    return std::bit_cast<std::uint32_t>(residual[i]) & 0x7fffffffU;
  };
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return magnitude(a) > magnitude(b); });
  order.resize(std::min(k, order.size()));
  std::sort(order.begin(), order.end());
  std::vector<Pair> pairs;
  for (const std::uint32_t index : order) pairs.push_back({index, std::exchange(residual[index], 0.0F)});
  return pairs;
}

}  // namespace dtrain::kernels::cuda
