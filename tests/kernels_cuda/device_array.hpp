#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/reference.hpp"

namespace dtrain::kernels::cuda {

inline constexpr Element elements[] = {Element::f32, Element::bf16, Element::f16};
inline constexpr std::size_t odd_sizes[] = {0, 1, 3, 31, 33, 1000, 4097};

inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
inline constexpr float infinity = std::numeric_limits<float>::infinity();

// Values as a device array of `element`, `shift` elements past a multiple of 16 bytes. Fails the test if what
// lies on either side of it has changed when it goes.
class DeviceArray {
 public:
  DeviceArray(Element element, std::span<const float> values, std::size_t shift = 0)
      : element_(element),
        size_(values.size()),
        shift_(before + shift),
        memory_((shift_ + size_ + after) * size_of(element)) {
    for (std::size_t i = 0; i < shift_ + size_ + after; ++i) write(i, guard);
    for (std::size_t i = 0; i < size_; ++i) write(shift_ + i, values[i]);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() {
    for (std::size_t i = 0; i < shift_ + size_ + after; ++i) {
      const bool outside = i < shift_ || i >= shift_ + size_;
      if (outside && read(i) != guard) ADD_FAILURE() << "written outside of the array";
    }
  }

  void* data() { return at(shift_); }
  float* floats() { return static_cast<float*>(data()); }
  std::vector<float> values() {
    std::vector<float> all(size_);
    for (std::size_t i = 0; i < size_; ++i) all[i] = read(shift_ + i);
    return all;
  }

 private:
  static constexpr std::size_t before = 16;  // elements
  static constexpr std::size_t after = 1;
  static constexpr float guard = 77.0F;

  void* at(std::size_t i) { return memory_.data() + i * size_of(element_); }
  float read(std::size_t i) {
    if (element_ == Element::bf16) return __bfloat162float(*static_cast<__nv_bfloat16*>(at(i)));
    if (element_ == Element::f16) return __half2float(*static_cast<__half*>(at(i)));
    return *static_cast<float*>(at(i));
  }
  void write(std::size_t i, float value) {
    if (element_ == Element::bf16) {
      *static_cast<__nv_bfloat16*>(at(i)) = __float2bfloat16_rn(value);
    } else if (element_ == Element::f16) {
      *static_cast<__half*>(at(i)) = __float2half_rn(value);
    } else {
      *static_cast<float*>(at(i)) = value;
    }
  }

  Element element_;
  std::size_t size_;
  std::size_t shift_;
  std::vector<std::byte> memory_;
};

// Normally distributed, and numbers of `element`.
inline std::vector<float> random_elements(Element element, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = round_to_reference(static_cast<float>(random.normal()), element);
  return values;
}

inline std::vector<float> rounded(std::vector<float> values, Element element) {
  for (float& value : values) value = round_to_reference(value, element);
  return values;
}

// Equal, or both not a number.
inline void expect_same(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    ASSERT_EQ(actual[i], expected[i]) << "at " << i << " of " << actual.size();
  }
}

// Within `relative` of the larger of `unit` and the expected value.
inline void expect_close(const std::vector<float>& actual, const std::vector<float>& expected,
                         double relative, double unit = 1.0) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double allowed = relative * std::max(unit, std::abs(static_cast<double>(expected[i])));
    ASSERT_NEAR(actual[i], expected[i], allowed) << "at " << i << " of " << actual.size();
  }
}

inline void expect_success(cudaError_t status) { ASSERT_EQ(status, cudaSuccess); }

// Relative distance of neighbouring values.
inline double spacing(Element element) {
  return element == Element::f32 ? 1.2e-7 : element == Element::bf16 ? 7.9e-3 : 9.8e-4;
}

}  // namespace dtrain::kernels::cuda
