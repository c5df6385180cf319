#include "kernels/half.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/dispatch.hpp"

namespace dtrain::kernels {

namespace {

constexpr std::uint32_t sign_bit = 0x80000000U;
constexpr std::uint32_t infinity_bits = 0x7f800000U;

inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Without a branch, which would keep loops from being vectorised.
inline std::uint32_t choose(bool condition, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

// Rounds the bits of a finite float to those of another that has `dropped` bits less.
inline std::uint32_t round_bits(std::uint32_t bits, int dropped) {
  const std::uint32_t below_half = (1U << (dropped - 1)) - 1;
  return (bits + below_half + ((bits >> dropped) & 1U)) & ~((1U << dropped) - 1);
}

// `magnitude` has no sign. A finite one, at most the largest, is rounded to a value of the format; `encode`
// takes such values and what is not finite.
struct Fp16 {
  static constexpr float largest = 65504.0F;
  static constexpr std::uint32_t rebias = 112U << 23;
  static constexpr std::uint32_t least_normal = 113U << 23;  // 2^-14

  static std::uint32_t round(std::uint32_t magnitude) {
    // Added to 0.5, a smaller number is rounded where the fraction of a subnormal ends.
    const std::uint32_t subnormal = bits_of((float_of(magnitude) + 0.5F) - 0.5F);
    return choose(magnitude < least_normal, subnormal, round_bits(magnitude, 13));
  }

  static std::uint32_t encode(std::uint32_t rounded) {
    const std::uint32_t subnormal = bits_of(float_of(rounded) + 0.5F) - bits_of(0.5F);
    const std::uint32_t finite = choose(rounded < least_normal, subnormal, (rounded - rebias) >> 13);
    return choose(rounded < infinity_bits, finite, choose(rounded == infinity_bits, 0x7c00U, 0x7e00U));
  }

  static float decode(std::uint32_t half) {
    const std::uint32_t shifted = ((half & 0x7fffU) << 13) + rebias;
    const std::uint32_t exponent = half & 0x7c00U;
    // A subnormal's fraction counts from 2^-14, less the one that stands before a normal number's.
    const std::uint32_t subnormal = bits_of(float_of(shifted + (1U << 23)) - 0x1p-14F);
    const std::uint32_t magnitude =
        choose(exponent == 0, subnormal, shifted + choose(exponent == 0x7c00U, rebias, 0));
    return float_of(magnitude | (half & 0x8000U) << 16);
  }
};

struct Bf16 {
  static constexpr float largest = 0x1.fep127F;

  static std::uint32_t round(std::uint32_t magnitude) { return round_bits(magnitude, 16); }
  static std::uint32_t encode(std::uint32_t rounded) {
    return choose(rounded > infinity_bits, 0x7fc0U, rounded >> 16);
  }
  static float decode(std::uint32_t half) { return float_of(half << 16); }
};

template <class Format>
[[gnu::always_inline]] inline void compress(const float* __restrict values, float* __restrict residual,
                                            std::uint16_t* __restrict to, std::size_t count) {
  constexpr std::uint32_t largest = std::bit_cast<std::uint32_t>(Format::largest);
  for (std::size_t i = 0; i < count; ++i) {
    const float exact = values[i] + residual[i];
    const std::uint32_t magnitude = bits_of(exact) & ~sign_bit;
    const std::uint32_t sign = bits_of(exact) & sign_bit;
    const bool finite = magnitude < infinity_bits;
    const std::uint32_t clamped = choose(magnitude < largest, magnitude, largest);
    const std::uint32_t sent = choose(finite, Format::round(clamped), magnitude);
    to[i] = static_cast<std::uint16_t>(Format::encode(sent) | sign >> 16);
    residual[i] = float_of(choose(finite, bits_of(exact - float_of(sent | sign)), 0));
  }
}

template <class Format>
[[gnu::always_inline]] inline void expand(const std::uint16_t* __restrict from, float* __restrict to,
                                          std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = Format::decode(from[i]);
}

template <class Format>
[[gnu::always_inline]] inline void add(const std::uint16_t* __restrict from, float* __restrict to,
                                       std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += Format::decode(from[i]);
}

DTRAIN_DISPATCH void compress_fp16(const float* values, float* residual, std::uint16_t* to,
                                   std::size_t count) {
  compress<Fp16>(values, residual, to, count);
}
DTRAIN_DISPATCH void compress_bf16(const float* values, float* residual, std::uint16_t* to,
                                   std::size_t count) {
  compress<Bf16>(values, residual, to, count);
}
DTRAIN_DISPATCH void expand_fp16(const std::uint16_t* from, float* to, std::size_t count) {
  expand<Fp16>(from, to, count);
}
DTRAIN_DISPATCH void expand_bf16(const std::uint16_t* from, float* to, std::size_t count) {
  expand<Bf16>(from, to, count);
}
DTRAIN_DISPATCH void add_fp16(const std::uint16_t* from, float* to, std::size_t count) {
  add<Fp16>(from, to, count);
}
DTRAIN_DISPATCH void add_bf16(const std::uint16_t* from, float* to, std::size_t count) {
  add<Bf16>(from, to, count);
}

// What a format's numbers are made of: bits of the fraction, exponents of the largest and the least normal.
struct Parts {
  int fraction;
  int largest;
  int least;
};

Parts parts_of(HalfFormat format) {
  return format == HalfFormat::fp16 ? Parts{10, 15, -14} : Parts{7, 127, -126};
}

std::uint16_t round_reference(double value, HalfFormat format) {
  const Parts parts = parts_of(format);
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const int infinity = (parts.largest - parts.least + 2) << parts.fraction;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | 1 << (parts.fraction - 1));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  const int exponent = value == 0.0 ? parts.least : std::max(std::ilogb(value), parts.least);
  // In units of the last place; may carry into the next exponent.
  const auto units = std::lrint(std::ldexp(std::abs(value), parts.fraction - exponent));
  const auto half = static_cast<int>(units) + ((exponent - parts.least) << parts.fraction);
  return static_cast<std::uint16_t>(sign | std::min(half, infinity - 1));
}

}  // namespace

void compress_to_half(std::span<const float> values, std::span<float> residual, std::span<std::uint16_t> to,
                      HalfFormat format) {
  (format == HalfFormat::fp16 ? compress_fp16 : compress_bf16)(values.data(), residual.data(), to.data(),
                                                               values.size());
}

void expand_half(std::span<const std::uint16_t> from, std::span<float> to, HalfFormat format) {
  (format == HalfFormat::fp16 ? expand_fp16 : expand_bf16)(from.data(), to.data(), from.size());
}

void add_half(std::span<const std::uint16_t> from, std::span<float> to, HalfFormat format) {
  (format == HalfFormat::fp16 ? add_fp16 : add_bf16)(from.data(), to.data(), from.size());
}

void compress_to_half_reference(std::span<const float> values, std::span<float> residual,
                                std::span<std::uint16_t> to, HalfFormat format) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float exact = values[i] + residual[i];
    to[i] = round_reference(exact, format);
    residual[i] = std::isfinite(exact) ? exact - half_value_reference(to[i], format) : 0.0F;
  }
}

float half_value_reference(std::uint16_t half, HalfFormat format) {
  const Parts parts = parts_of(format);
  const int exponent = (half & 0x7fff) >> parts.fraction;
  const int fraction = half & ((1 << parts.fraction) - 1);
  const int implied = exponent == 0 ? 0 : 1 << parts.fraction;
  double magnitude = std::ldexp(fraction + implied, std::max(exponent, 1) - 1 + parts.least - parts.fraction);
  if (exponent == parts.largest - parts.least + 2) {
    magnitude =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return static_cast<float>((half & 0x8000) != 0 ? -magnitude : magnitude);
}

}  // namespace dtrain::kernels
