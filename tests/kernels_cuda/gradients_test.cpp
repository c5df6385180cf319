#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "device_array.hpp"
#include "kernels/cuda/check_finite.hpp"
#include "kernels/cuda/sum_into_all.hpp"
#include "kernels/cuda/take_gradients.hpp"
#include "kernels/reduce.hpp"

namespace dtrain::kernels::cuda {
namespace {

TEST(CheckFinite, FindsOneBadValueAnywhere) {
  for (const std::size_t size : odd_sizes) {
    for (const std::size_t shift : {0, 1}) {
      const auto values = random_elements(Element::f32, size, 1);
      DeviceArray fine(Element::f32, values, shift);
      std::int32_t flag = 0;
      expect_success(check_finite(fine.floats(), size, &flag, nullptr));
      EXPECT_EQ(flag, 0);
      for (std::size_t where = 0; where < size; where += size / 7 + 1) {
        for (const float bad : {infinity, -infinity, not_a_number}) {
          auto spoilt = values;
          spoilt[where] = bad;
          DeviceArray array(Element::f32, spoilt, shift);
          flag = 0;
          expect_success(check_finite(array.floats(), size, &flag, nullptr));
          EXPECT_EQ(flag, 1) << where << " of " << size;
        }
      }
    }
  }
}

TEST(CheckFinite, NeverClearsTheFlag) {
  const float fine[] = {1.0F, 3.4e38F};
  std::int32_t flag = 1;
  expect_success(check_finite(fine, 2, &flag, nullptr));
  EXPECT_EQ(flag, 1);
}

std::vector<Segment> segments_of(std::span<const std::size_t> sizes, std::size_t step_from,
                                 std::size_t step_to) {
  std::vector<Segment> segments;
  std::size_t from = 0;
  std::size_t to = 0;
  for (const std::size_t size : sizes) {
    segments.push_back({from, to, size});
    from += size + step_from;
    to += size + step_to;
  }
  return segments;
}

TEST(TakeGradients, CopiesOrAddsSegments) {
  const std::size_t many[] = {0, 1, 33, 0, 4096, 8, 5000, 31, 16, 7};
  for (const Element element : elements) {
    for (const bool add : {false, true}) {
      for (const std::size_t gap : {0, 3, 8}) {
        const auto segments = segments_of(many, gap, 2 * gap);
        const auto from = random_elements(element, 10000, 1);
        auto to = random_elements(Element::f32, 10000, 2);
        DeviceArray source(element, from), target(Element::f32, to);
        std::int32_t flag = 0;
        expect_success(
            take_gradients(source.data(), element, target.floats(), segments, add, &flag, nullptr));
        take_gradients_reference(from, to, segments, add);
        expect_same(target.values(), to);
        EXPECT_EQ(flag, 0);
      }
    }
  }
}

TEST(TakeGradients, TakesShiftedArraysToo) {
  const std::size_t sizes[] = {100, 4000};
  const auto segments = segments_of(sizes, 0, 0);
  const auto from = random_elements(Element::bf16, 4100, 1);
  std::vector<float> to(4100, 1.0F);
  DeviceArray source(Element::bf16, from, 1), target(Element::f32, to, 2);
  expect_success(
      take_gradients(source.data(), Element::bf16, target.floats(), segments, false, nullptr, nullptr));
  expect_same(target.values(), from);
}

TEST(TakeGradients, NotesWhatIsNotFinite) {
  for (const std::size_t where : {0, 9, 39}) {
    std::vector<float> from(40, 1.0F);
    from[where] = infinity;
    DeviceArray source(Element::f16, from), target(Element::f32, std::vector<float>(40));
    std::int32_t flag = 0;
    const Segment segment[] = {{0, 0, 40}};
    expect_success(
        take_gradients(source.data(), Element::f16, target.floats(), segment, true, &flag, nullptr));
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(target.values()[where], infinity);
  }
}

TEST(TakeGradients, TakesThirtyTwoSegmentsAndNoMore) {
  std::vector<std::size_t> sizes(32, 3);
  auto segments = segments_of(sizes, 1, 0);
  std::vector<float> from(128), to(96);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  expect_success(take_gradients(from.data(), Element::f32, to.data(), segments, false, nullptr, nullptr));
  for (std::size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], static_cast<float>(i / 3 * 4 + i % 3));
  segments.push_back({});
  EXPECT_EQ(take_gradients(from.data(), Element::f32, to.data(), segments, false, nullptr, nullptr),
            cudaErrorInvalidValue);
  expect_success(take_gradients(from.data(), Element::f32, to.data(), {}, false, nullptr, nullptr));
}

TEST(SumIntoAll, HasTheBitsOfTheReference) {
  for (const std::size_t replicas : {1, 2, 3, 5, 8, 16}) {
    for (const std::size_t size : odd_sizes) {
      for (const std::size_t offset : {0, 1, 4}) {
        std::vector<std::vector<float>> expected(replicas);
        std::vector<std::unique_ptr<DeviceArray>> arrays;
        std::vector<float*> targets, buffers;
        for (std::size_t r = 0; r < replicas; ++r) {
          expected[r] = random_elements(Element::f32, size + offset + 3, r);
          arrays.push_back(std::make_unique<DeviceArray>(Element::f32, expected[r]));
          targets.push_back(expected[r].data());
          buffers.push_back(arrays[r]->floats());
        }
        expect_success(sum_into_all(buffers, offset, size, nullptr));
        sum_into_all_reference(targets, offset, size);
        for (std::size_t r = 0; r < replicas; ++r) expect_same(arrays[r]->values(), expected[r]);
      }
    }
  }
  const std::array<float*, 17> too_many = {};
  EXPECT_EQ(sum_into_all(too_many, 0, 1, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace dtrain::kernels::cuda
