#include "datasets/shard.hpp"

#include <gtest/gtest.h>

namespace dtrain::datasets {
namespace {

TEST(Sharding, LargerSharesComeFirstAndDifferByOne) {
  const Sharding sharding{.size = 100, .global_batch = 10, .replicas = 4};
  const int expected[] = {3, 3, 2, 2};
  std::size_t first = 20;
  for (int rank = 0; rank < 4; ++rank) {
    const OrderRange range = sharding.micro_batch(2, rank, 0);
    EXPECT_EQ(range.first, first);
    EXPECT_EQ(range.count, expected[rank]);
    first += range.count;
  }
}

TEST(Sharding, MicroBatchesDealOutARanksShareLikewise) {
  const Sharding sharding{.size = 100, .global_batch = 14, .replicas = 2, .accumulate = 3};
  const OrderRange expected[] = {{7, 3}, {10, 2}, {12, 2}};
  for (int micro_step = 0; micro_step < 3; ++micro_step) {
    EXPECT_EQ(sharding.micro_batch(0, 1, micro_step).first, expected[micro_step].first);
    EXPECT_EQ(sharding.micro_batch(0, 1, micro_step).count, expected[micro_step].count);
  }
}

TEST(Sharding, RemainderIsDroppedOrKept) {
  Sharding sharding{.size = 23, .global_batch = 10, .replicas = 4};
  EXPECT_EQ(sharding.steps_per_epoch(), 2);
  sharding.keep_last = true;
  EXPECT_EQ(sharding.steps_per_epoch(), 3);
  EXPECT_EQ(sharding.step_images(1), 10);
  EXPECT_EQ(sharding.step_images(2), 3);
  EXPECT_EQ(sharding.micro_batch(2, 2, 0).count, 1);
  EXPECT_EQ(sharding.micro_batch(2, 3, 0).count, 0);
}

TEST(Sharding, NothingIsKeptWhereNothingRemains) {
  const Sharding sharding{.size = 30, .global_batch = 10, .keep_last = true};
  EXPECT_EQ(sharding.steps_per_epoch(), 3);
  EXPECT_EQ(sharding.step_images(2), 10);
}

TEST(Sharding, LargestMicroBatchHoldsEveryOther) {
  for (int batch = 1; batch < 30; ++batch) {
    for (int replicas = 1; replicas <= 5; ++replicas) {
      for (int accumulate = 1; accumulate <= 3; ++accumulate) {
        const Sharding sharding{.size = 95,
                                .global_batch = batch,
                                .keep_last = true,
                                .replicas = replicas,
                                .accumulate = accumulate};
        for (int rank = 0; rank < replicas; ++rank) {
          int largest = 0;
          for (int step = 0; step < sharding.steps_per_epoch(); ++step) {
            for (int m = 0; m < accumulate; ++m)
              largest = std::max(largest, sharding.micro_batch(step, rank, m).count);
          }
          ASSERT_EQ(largest, sharding.largest_micro_batch(rank))
              << batch << ' ' << replicas << ' ' << accumulate;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtrain::datasets
