#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "base/random.hpp"
#include "parameter_server/storage.hpp"
#include "tables.hpp"

namespace dtrain::parameter_server {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(Async, EachPushIsAppliedAtOnceAndStalenessCountsOthersUpdates) {
  const TableConfig config = table(100, 3, {.async = true});
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 8.0F);
  struct Turn {
    std::size_t worker;
    int staleness;
  };
  // By hand: others' updates between the worker's last pull and this push.
  const Turn turns[] = {{0, 0}, {0, 0}, {1, 2}, {0, 1}, {2, 4}, {2, 0}, {1, 3}, {0, 3}};
  float weight = 8.0F;
  std::uint64_t version = 0;
  for (const Turn& turn : turns) {
    const Push push = workers[turn.worker].push(0.5F);
    weight -= 0.5F;
    EXPECT_EQ(push.staleness, turn.staleness);
    EXPECT_EQ(push.version, ++version);
    EXPECT_EQ(workers[turn.worker].weight(), weight);
    EXPECT_FALSE(push.dropped);
  }
}

TEST(Async, TheOptimizersStepCountsUpdatesOfAllWorkers) {
  const TableConfig config = table(40, 2, {.async = true}, "adam");
  const auto local = make_local_servers(config, 1);
  auto workers = local_workers(*local, config, 1.0F);
  std::vector<float> expected(40, 1.0F);
  std::vector<float> first(40);
  std::vector<float> second(40);
  const std::vector<float> gradients(40, 0.3F);
  for (int update = 1; update <= 4; ++update) {
    const long own = (update + 1) / 2;
    workers[static_cast<std::size_t>(update % 2)].push(0.3F, 1, 1, {.learning_rate = 0.1, .step = own});
    kernels::optimizers().at("adam").value.update(expected, gradients, first, second,
                                                  {.learning_rate = 0.1, .step = update});
  }
  EXPECT_EQ(workers[0].weights, expected);
}

TEST(Async, ABadGradientIsLeftOut) {
  const TableConfig config = table(40, 2, {.async = true});
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 1.0F);
  EXPECT_FALSE(workers[0].push(std::numeric_limits<float>::quiet_NaN()).finite);
  EXPECT_EQ(workers[0].weight(), 1.0F);
  EXPECT_EQ(workers[1].push(0.5F).staleness, 0);
  EXPECT_EQ(workers[1].weight(), 0.5F);
  kernels::OptimizerStep huge = descent();
  huge.gradient_unscale = 1e30;
  try {
    workers[1].push(1e30F, 1, 1, huge);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("gradients of worker 1 overflow fp32"));
  }
}

TEST(Async, ManyThreadsLoseNoUpdate) {
  const std::size_t size = 2 * Storage::chunk_floats + 16;
  const TableConfig config = table(size, 4, {.async = true});
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 0.0F);
  all_at_once(4, [&](int worker) {
    for (int step = 0; step < 30; ++step) {
      const Push push = workers[static_cast<std::size_t>(worker)].push(1.0F);
      EXPECT_LE(push.staleness, 3 * 30);
    }
  });
  workers[0].client->read_weights(workers[0].weights, soon());
  EXPECT_EQ(workers[0].weight(), -120.0F);
}

TEST(Staleness, AWorkerWaitsThatWouldBeTooFarAhead) {
  const TableConfig config = table(40, 2, {.async = true, .staleness = 2});
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 0.0F);
  workers[0].push(1.0F);
  workers[0].push(1.0F);
  std::atomic<bool> went_on = false;
  all_at_once(2, [&](int worker) {
    if (worker == 0) {
      workers[0].push(1.0F);
      went_on = true;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_FALSE(went_on);
      EXPECT_EQ(workers[1].push(10.0F).staleness, 3);
    }
  });
  EXPECT_EQ(workers[0].weight(), -13.0F);  // what it waited for is in the weights
}

TEST(Staleness, AWaitNamesTheSlowest) {
  const TableConfig config = table(40, 3, {.async = true, .staleness = 1});
  const auto local = make_local_servers(config, 1);
  auto workers = local_workers(*local, config, 0.0F);
  workers[0].push(1.0F);
  workers[2].push(1.0F);
  try {
    workers[2].push(1.0F, 1, 1, descent(), Deadline::in(Seconds(0.05)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("worker 2 waited 0.05 s for worker 1, which is 2 steps behind it"));
  }
}

TEST(Staleness, WhoHasLeftHoldsNobodyUp) {
  const TableConfig config = table(40, 2, {.async = true, .staleness = 0});
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 0.0F);
  all_at_once(2, [&](int worker) {
    if (worker == 0) {
      for (int step = 0; step < 5; ++step) workers[0].push(1.0F);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      workers[1].client.reset();
    }
  });
  EXPECT_EQ(workers[0].weight(), -5.0F);
}

class Bound : public ::testing::TestWithParam<int> {};

// A step begins when the push before it has returned. None may begin more than the bound ahead of the
// slowest.
TEST_P(Bound, IsNeverExceededWhateverTheSchedule) {
  constexpr int ranks = 4;
  constexpr int steps = 40;
  const int bound = GetParam();
  const TableConfig config = table(Storage::chunk_floats + 32, ranks, {.async = true, .staleness = bound});
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 0.0F);
  std::atomic<int> finished[ranks] = {};  // pushes that were begun, which is before they count
  std::atomic<int> worst = 0;
  all_at_once(ranks, [&](int rank) {
    Random random(mix(static_cast<std::uint64_t>(bound), static_cast<std::uint64_t>(rank)));
    for (int step = 0; step < steps; ++step) {
      if (random.below(3) == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(rank == 0 ? 3000 : 600)));
      }
      for (const auto& other : finished) {
        const int ahead = step - other;
        EXPECT_LE(ahead, bound);
        for (int seen = worst; ahead > seen && !worst.compare_exchange_weak(seen, ahead);) {
        }
      }
      ++finished[rank];
      // Others: at most `bound` ahead when it pulled, and again when it pushes.
      EXPECT_LE(workers[static_cast<std::size_t>(rank)].push(1.0F).staleness, (ranks - 1) * (2 * bound + 1));
    }
  });
  workers[0].client->read_weights(workers[0].weights, soon());
  EXPECT_EQ(workers[0].weight(), -static_cast<float>(ranks * steps));
}

INSTANTIATE_TEST_SUITE_P(Steps, Bound, ::testing::Values(0, 1, 3));

}  // namespace
}  // namespace dtrain::parameter_server
