#include "kernels/reduce.hpp"

#include <gtest/gtest.h>

#include "ranks.hpp"

namespace dtrain::comm {
namespace {

struct Buffers {
  Buffers(int count, std::size_t size) {
    for (int i = 0; i < count; ++i) values.push_back(values_of(i, 11, size));
    for (auto& v : values) pointers.push_back(v.data());
  }
  std::vector<std::vector<float>> values;
  std::vector<float*> pointers;
};

TEST(Reduce, SumsLikeTheReferenceAndTouchesNothingElse) {
  constexpr std::size_t size = 2100;
  for (int count = 1; count <= 17; ++count) {
    for (const std::size_t offset : {0UL, 3UL, 1000UL}) {
      for (const std::size_t length : {0UL, 1UL, 31UL, 512UL, 1100UL}) {
        Buffers fast(count, size);
        Buffers plain(count, size);
        kernels::sum_into_all(fast.pointers, offset, length);
        kernels::sum_into_all_reference(plain.pointers, offset, length);
        for (std::size_t r = 0; r < fast.values.size(); ++r) {
          ASSERT_TRUE(same_bits(fast.values[r], plain.values[r]))
              << count << " buffers, " << length << " floats at " << offset;
        }
      }
    }
  }
}

TEST(Reduce, IntoOneLeavesTheOthersAlone) {
  constexpr std::size_t size = 1500;
  for (int count = 1; count <= 9; ++count) {
    for (int target = 0; target < count; ++target) {
      Buffers fast(count, size);
      const Buffers before(count, size);
      Buffers plain(count, size);
      kernels::sum_into_one(fast.pointers, static_cast<std::size_t>(target), 16, 1400);
      kernels::sum_into_all_reference(plain.pointers, 16, 1400);
      for (std::size_t r = 0; r < fast.values.size(); ++r) {
        const bool is_target = static_cast<int>(r) == target;
        ASSERT_TRUE(same_bits(fast.values[r], is_target ? plain.values[r] : before.values[r]));
      }
    }
  }
}

TEST(Reduce, ReferenceAddsInOrder) {
  float a[] = {1e8F, 1.0F};
  float b[] = {1.0F, 2.0F};
  float c[] = {-1e8F, 3.0F};
  float* const list[] = {a, b, c};
  kernels::sum_into_all_reference(list, 0, 2);
  EXPECT_EQ(a[0], 0.0F);  // 1 is lost beside 1e8; another order would give 1
  EXPECT_EQ(c[1], 6.0F);
}

}  // namespace
}  // namespace dtrain::comm
