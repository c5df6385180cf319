#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/random.hpp"
#include "cuda/steps.hpp"

namespace dtrain::testing {

// How far a GPU may be from full fp32 arithmetic after one step. Elements have 24, 11, 11 and 8 bits of
// fraction. A value on the other side of a ReLU's kink or of a pool's tie counts for more than its rounding.
struct Tolerance {
  double loss;      // relative
  double gradient;  // relative to the largest of a parameter's
};

inline Tolerance tolerance_of(config::Precision precision, bool kinks) {
  switch (precision) {
    case config::Precision::fp32:
      return {1e-5, 2e-4};
    case config::Precision::tf32:
    case config::Precision::fp16:
      return {3e-3, kinks ? 3e-1 : 1e-2};
    case config::Precision::bf16:
      return {2e-2, kinks ? 5e-1 : 6e-2};
  }
  throw std::logic_error("no such precision");
}

inline constexpr config::Precision precisions[] = {config::Precision::fp32, config::Precision::tf32,
                                                   config::Precision::bf16, config::Precision::fp16};

// Normally distributed pixels and any labels.
struct Images {
  explicit Images(int count, std::uint64_t seed = 1)
      : pixels(static_cast<std::size_t>(count) * datasets::pixels_per_image),
        labels(static_cast<std::size_t>(count)) {
    Random random(seed);
    for (float& pixel : pixels) pixel = static_cast<float>(random.normal());
    for (auto& label : labels) label = static_cast<std::int32_t>(random.below(10));
  }
  backend::Batch batch() const {
    return {.images = pixels.data(), .labels = labels.data(), .count = static_cast<int>(labels.size())};
  }
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
};

}  // namespace dtrain::testing
