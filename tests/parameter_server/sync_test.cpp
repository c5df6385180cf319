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

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

TEST(Shards, CoverTheBufferInWholeCacheLines) {
  for (const std::size_t size : {0UL, 1UL, 16UL, 100UL, 122570UL}) {
    for (const int shards : {1, 2, 3, 7}) {
      std::size_t next = 0;
      for (int index = 0; index < shards; ++index) {
        const backend::Range range = shard(size, index, shards);
        EXPECT_EQ(range.offset, next);
        EXPECT_TRUE(range.offset % 16 == 0 || range.size == 0);
        next += range.size;
      }
      EXPECT_EQ(next, size);
    }
  }
  EXPECT_EQ(shard(100, 0, 2).size, 48U);  // seven lines: three and four
}

TEST(Sync, WorkerZeroGivesTheWeightsAndEveryUpdateTakesAllGradients) {
  const TableConfig config = table(100, 2);
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 10.0F);
  EXPECT_EQ(workers[1].weight(), 10.0F);
  for (int step = 1; step <= 3; ++step) {
    all_at_once(2, [&](int worker) {
      const Push push = workers[static_cast<std::size_t>(worker)].push(worker == 0 ? 1.0F : 0.5F, 1, 2);
      EXPECT_EQ(push.version, static_cast<std::uint64_t>(step));
      EXPECT_EQ(push.staleness, 0);
      EXPECT_FALSE(push.dropped);
      EXPECT_TRUE(push.finite);
      EXPECT_TRUE(push.weights_finite);
    });
    EXPECT_EQ(workers[0].weight(), 10.0F - 1.5F * static_cast<float>(step));
    EXPECT_EQ(workers[1].weight(), workers[0].weight());
  }
  EXPECT_EQ(workers[0].client->bytes_sent(), 3U * 100 * sizeof(float));
}

// The same sum in the same order through the same kernel: no bit may differ, whoever came first.
TEST(Sync, IsOneUpdateWithTheSummedGradientsBitForBit) {
  const std::size_t size = 2 * Storage::chunk_floats + 1000;
  constexpr int ranks = 3;
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    const TableConfig config = table(size, ranks, {}, optimizer);
    const auto local = make_local_servers(config, 2);
    auto workers = local_workers(*local, config, 0.25F);
    std::vector<float> weights(size, 0.25F);
    std::vector<float> state0(size);
    std::vector<float> state1(size);
    for (int step = 1; step <= 4; ++step) {
      std::vector<std::vector<float>> gradients;
      for (int rank = 0; rank < ranks; ++rank) {
        gradients.push_back(
            random_values(size, mix(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(rank))));
      }
      kernels::OptimizerStep update{.learning_rate = 0.01 * step, .weight_decay = 0.001, .step = step};
      all_at_once(ranks, [&](int rank) {
        std::this_thread::sleep_for(std::chrono::milliseconds((rank * 7 + step * 5) % 4));
        Worker& worker = workers[static_cast<std::size_t>(rank)];
        worker.client->push_pull({.values = gradients[static_cast<std::size_t>(rank)],
                                  .images = 2,
                                  .step_images = 6,
                                  .update = update},
                                 worker.weights, soon());
      });
      std::vector<float> sum(size);
      for (std::size_t i = 0; i < size; ++i) sum[i] = (gradients[0][i] + gradients[1][i]) + gradients[2][i];
      kernels::optimizers().at(optimizer).value.update(weights, sum, state0, state1, update);
      for (const Worker& worker : workers) EXPECT_EQ(worker.weights, weights) << optimizer << " " << step;
    }
    std::vector<float> state(size);
    workers[2].client->read_state(0, state, soon());
    EXPECT_EQ(state, state0);
  }
}

TEST(Sync, OneBadGradientLeavesAllShardsAlone) {
  const TableConfig config = table(100, 2);
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 1.0F);
  all_at_once(2, [&](int worker) {
    Worker& mine = workers[static_cast<std::size_t>(worker)];
    std::ranges::fill(mine.gradients, 0.5F);
    if (worker == 1) mine.gradients[99] = std::numeric_limits<float>::infinity();  // on the second shard only
    const Push push = mine.client->push_pull(
        {.values = mine.gradients, .images = 1, .step_images = 2, .update = descent()}, mine.weights, soon());
    EXPECT_FALSE(push.finite);
    EXPECT_EQ(push.version, 1U);
  });
  EXPECT_EQ(workers[0].weight(), 1.0F);
  all_at_once(2, [&](int worker) {
    EXPECT_TRUE(workers[static_cast<std::size_t>(worker)].push(0.25F, 1, 2).finite);
  });
  EXPECT_EQ(workers[1].weight(), 0.5F);
}

TEST(Sync, ASumThatOverflowsEndsTheRun) {
  const TableConfig config = table(100, 2);
  const auto local = make_local_servers(config, 1);
  auto workers = local_workers(*local, config, 1.0F);
  const auto errors =
      at_once(2, [&](int worker) { workers[static_cast<std::size_t>(worker)].push(3e38F, 1, 2); });
  for (const auto& error : errors) EXPECT_THAT(message_of(error), HasSubstr("overflows fp32 in update 1"));
}

TEST(Sync, LossScalesAreTakenOutAndMustAgree) {
  const TableConfig config = table(20, 2);
  const auto local = make_local_servers(config, 1);
  auto workers = local_workers(*local, config, 1.0F);
  kernels::OptimizerStep scaled = descent();
  scaled.gradient_unscale = 1.0 / 64.0;
  all_at_once(2, [&](int worker) { workers[static_cast<std::size_t>(worker)].push(16.0F, 1, 2, scaled); });
  EXPECT_EQ(workers[0].weight(), 0.5F);
  const auto errors = at_once(2, [&](int worker) {
    workers[static_cast<std::size_t>(worker)].push(16.0F, 1, 2, worker == 0 ? scaled : descent());
  });
  EXPECT_THAT(message_of(errors[0]), HasSubstr("do not agree on update 2: loss scale 64 and 1"));
}

TEST(Sync, AWaitEndsByItsDeadlineAndNamesWhoIsMissing) {
  const TableConfig config = table(20, 3);
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 1.0F);
  const auto errors = at_once(2, [&](int thread) {
    const std::size_t worker = thread == 0 ? 0 : 2;
    workers[worker].push(1.0F, 1, 3, descent(), Deadline::in(Seconds(thread == 0 ? 0.2 : 20)));
  });
  for (const auto& error : errors) {
    EXPECT_THAT(message_of(error),
                HasSubstr("worker 0 waited 0.2 s for the gradients of worker 1 in update 1"));
  }
  EXPECT_ANY_THROW(workers[1].push(1.0F, 1, 3));
}

TEST(Sync, WhoWaitsForWeightsOfWorkerZeroNamesIt) {
  const TableConfig config = table(20, 2);
  const auto local = make_local_servers(config, 1);
  const auto client = local->connect(1);
  std::vector<float> weights(20);
  try {
    client->initialise(weights, Deadline::in(Seconds(0.05)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("worker 1 waited 0.05 s for the weights of worker 0"));
  }
}

TEST(Sync, AbortEndsAllWaits) {
  const TableConfig config = table(20, 3);
  const auto local = make_local_servers(config, 1);
  auto workers = local_workers(*local, config, 1.0F);
  const auto errors = at_once(3, [&](int worker) {
    if (worker < 2) {
      workers[static_cast<std::size_t>(worker)].push(1.0F, 1, 3);
    } else {
      workers[2].client->abort("rank 2 failed: no more data");
    }
  });
  EXPECT_EQ(message_of(errors[0]), "rank 2 failed: no more data");
  EXPECT_EQ(message_of(errors[1]), "rank 2 failed: no more data");
  EXPECT_FALSE(errors[2]);
}

TEST(Sync, AWorkerThatLeavesIsMissedAtOnce) {
  const TableConfig config = table(20, 2);
  const auto local = make_local_servers(config, 1);
  auto workers = local_workers(*local, config, 1.0F);
  workers[1].client.reset();
  try {
    workers[0].push(1.0F, 1, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("update 1 needs the gradients of worker 1, which has left"));
  }
}

TEST(Sync, StateCanBeReadAndWritten) {
  const std::size_t size = Storage::chunk_floats + 40;
  const TableConfig config = table(size, 2, {}, "adam");
  const auto local = make_local_servers(config, 3);
  auto workers = local_workers(*local, config, 1.0F);
  const auto weights = random_values(size, 1);
  auto first = random_values(size, 2);
  auto second = random_values(size, 3);
  for (float& value : second) value *= value;
  all_at_once(2, [&](int worker) {
    workers[static_cast<std::size_t>(worker)].client->write(weights, {first, second}, soon());
  });
  std::vector<float> back(size);
  workers[1].client->read_weights(back, soon());
  EXPECT_EQ(back, weights);
  workers[1].client->read_state(1, back, soon());
  EXPECT_EQ(back, second);
  // The optimizer's own step counts on from the first push's.
  std::vector<float> expected = weights;
  const auto gradients = random_values(size, 4);
  const std::vector<float> zeros(size);
  for (int step = 41; step <= 42; ++step) {
    kernels::OptimizerStep update{.learning_rate = 0.1, .step = step};
    all_at_once(2, [&](int worker) {
      Worker& mine = workers[static_cast<std::size_t>(worker)];
      mine.client->push_pull(
          {.values = worker == 0 ? gradients : zeros, .images = 1, .step_images = 2, .update = update},
          mine.weights, soon());
    });
    kernels::optimizers().at("adam").value.update(expected, gradients, first, second, update);
    EXPECT_EQ(workers[0].weights, expected);
  }
}

TEST(Sync, ManyThreadsAgreeForManySteps) {
  const std::size_t size = 3 * Storage::chunk_floats;
  const TableConfig config = table(size, 4);
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 0.0F);
  all_at_once(4, [&](int worker) {
    for (int step = 1; step <= 50; ++step) {
      EXPECT_EQ(workers[static_cast<std::size_t>(worker)].push(1.0F, 1, 4).version,
                static_cast<std::uint64_t>(step));
      EXPECT_EQ(workers[static_cast<std::size_t>(worker)].weight(), -4.0F * static_cast<float>(step));
    }
  });
}

}  // namespace
}  // namespace dtrain::parameter_server
