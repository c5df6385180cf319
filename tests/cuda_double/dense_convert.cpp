#include <cstring>

#include "dense.hpp"

namespace cuda_double::dense {
namespace {

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

bool is_nan(std::uint32_t bits) { return (bits & 0x7fffffffU) > 0x7f800000U; }

std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  if (is_nan(bits)) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t rest = half & 0x7fffU;
  std::uint32_t bits = bits_of(float_of(rest << 13) * 0x1p112F);  // subnormals included
  if (rest >= 0x7c00U) bits |= 0x7f800000U;
  return float_of(bits | sign);
}

std::uint16_t to_half(float value) {
  const std::uint32_t bits = bits_of(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  std::uint32_t rest = bits & 0x7fffffffU;
  if (is_nan(bits)) return 0x7fff;
  if (rest >= 0x477ff000U) return sign | 0x7c00U;  // 65520 and more
  if (rest < 0x38800000U) {                        // subnormal: adding 0.5 lines the bits up and rounds
    rest = bits_of(float_of(rest) + 0.5F) - 0x3f000000U;
    return static_cast<std::uint16_t>(sign | rest);
  }
  rest += 0xfffU + (rest >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | (rest - 0x38000000U) >> 13);
}

template <class From, class Convert>
void each(const void* from, std::size_t count, float* to, Convert convert) {
  const auto* values = static_cast<const From*>(from);
  for (std::size_t i = 0; i < count; ++i) to[i] = convert(values[i]);
}

template <class To, class Convert>
void each_to(const float* from, std::size_t count, void* to, Convert convert) {
  auto* values = static_cast<To*>(to);
  for (std::size_t i = 0; i < count; ++i) values[i] = convert(from[i]);
}

}  // namespace

void to_float(cudnnDataType_t type, const void* from, std::size_t count, float* to) {
  switch (type) {
    case CUDNN_DATA_BFLOAT16:
      return each<std::uint16_t>(from, count, to,
                                 [](std::uint16_t v) { return float_of(std::uint32_t{v} << 16); });
    case CUDNN_DATA_HALF:
      return each<std::uint16_t>(from, count, to, from_half);
    case CUDNN_DATA_INT8:
      return each<std::int8_t>(from, count, to, [](std::int8_t v) { return static_cast<float>(v); });
    case CUDNN_DATA_INT32:
      return each<std::int32_t>(from, count, to, [](std::int32_t v) { return static_cast<float>(v); });
    default:
      std::memcpy(to, from, count * sizeof(float));
  }
}

void from_float(cudnnDataType_t type, const float* from, std::size_t count, void* to) {
  switch (type) {
    case CUDNN_DATA_BFLOAT16:
      return each_to<std::uint16_t>(from, count, to, to_bfloat16);
    case CUDNN_DATA_HALF:
      return each_to<std::uint16_t>(from, count, to, to_half);
    case CUDNN_DATA_INT8:
      return each_to<std::int8_t>(from, count, to, [](float v) { return static_cast<std::int8_t>(v); });
    case CUDNN_DATA_INT32:
      return each_to<std::int32_t>(from, count, to, [](float v) { return static_cast<std::int32_t>(v); });
    default:
      std::memcpy(to, from, count * sizeof(float));
  }
}

void round_to_tf32(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = bits_of(values[i]);
    if ((bits & 0x7f800000U) != 0x7f800000U)
      values[i] = float_of((bits + 0xfffU + (bits >> 13 & 1U)) & ~0x1fffU);
  }
}

}  // namespace cuda_double::dense
