#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/random.hpp"
#include "parameter_server/storage.hpp"
#include "tables.hpp"

namespace dtrain::parameter_server {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(Backups, ALateGradientIsDroppedAndItsWorkerGoesOnFromTheNewestWeights) {
  const TableConfig config = table(100, 3, {.backups = 1});
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 10.0F);
  // 6 images a step, of which 4 arrive: the sum counts one and a half times.
  all_at_once(2, [&](int worker) {
    const Push push = workers[static_cast<std::size_t>(worker)].push(1.0F, 2, 6);
    EXPECT_FALSE(push.dropped);
    EXPECT_EQ(push.version, 1U);
  });
  EXPECT_EQ(workers[0].weight(), 7.0F);
  Push push = workers[2].push(100.0F, 2, 6);
  EXPECT_TRUE(push.dropped);
  EXPECT_EQ(push.version, 1U);
  EXPECT_EQ(workers[2].weight(), 7.0F);
  EXPECT_EQ(workers[2].client->bytes_sent(), 0U);  // it was not even sent
  // Its next one is in time.
  all_at_once(2, [&](int thread) {
    EXPECT_FALSE(workers[static_cast<std::size_t>(thread) + 1].push(2.0F, 2, 6).dropped);
  });
  EXPECT_EQ(workers[2].weight(), 1.0F);
  push = workers[0].push(1.0F, 2, 6);
  EXPECT_TRUE(push.dropped);
  EXPECT_EQ(push.version, 2U);
}

TEST(Backups, UnevenSharesAreWeighedByTheirImages) {
  const TableConfig config = table(100, 2, {.backups = 1});
  const auto local = make_local_servers(config, 1);
  auto workers = local_workers(*local, config, 0.0F);
  workers[1].push(1.0F, 3, 8);
  EXPECT_FLOAT_EQ(workers[1].weight(), -8.0F / 3.0F);
}

TEST(Backups, ATooLateOneWaitsForTheUpdateThatIsBeingMade) {
  const TableConfig config = table(100, 3, {.backups = 2});
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 0.0F);
  for (int step = 1; step <= 20; ++step) {
    std::atomic<int> dropped = 0;
    all_at_once(3, [&](int worker) {
      const Push push = workers[static_cast<std::size_t>(worker)].push(1.0F, 1, 3);
      dropped += push.dropped ? 1 : 0;
    });
    for (const Worker& worker : workers) EXPECT_LE(worker.weight(), -3.0F);
    EXPECT_LE(dropped, 2);
  }
}

TEST(Backups, WhoMissesADeadlineIsNamed) {
  const TableConfig config = table(100, 4, {.backups = 1});
  const auto local = make_local_servers(config, 1);
  auto workers = local_workers(*local, config, 0.0F);
  try {
    workers[1].push(1.0F, 1, 4, descent(), Deadline::in(Seconds(0.05)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("worker 1 waited 0.05 s for the gradients of workers 0, 2, 3 in update 1"));
  }
}

// Fast ones finish and rest; a slow one, which has been late again and again, must not wait for them.
TEST(Backups, AStragglerFinishesAfterAllOthersRest) {
  constexpr int steps = 12;
  const TableConfig config = table(100, 4, {.backups = 1});
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 0.0F);
  for (int stretch = 1; stretch <= 2; ++stretch) {
    std::atomic<int> dropped[4] = {};
    all_at_once(4, [&](int worker) {
      Worker& mine = workers[static_cast<std::size_t>(worker)];
      for (int step = 0; step < steps; ++step) {
        if (worker == 3) std::this_thread::sleep_for(std::chrono::milliseconds(15));
        if (worker != 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (mine.push(1.0F, 1, 4).dropped) ++dropped[worker];
      }
      mine.client->rest();
    });
    EXPECT_GE(dropped[3], 1);
    EXPECT_LT(dropped[3], steps);  // alone at the end, its gradients count
  }
}

// Random schedules: every push returns, and what was not dropped is in the weights.
TEST(Backups, NobodyStarvesAndNothingIsLost) {
  constexpr int ranks = 4;
  constexpr int steps = 60;
  const TableConfig config = table(Storage::chunk_floats + 64, ranks, {.backups = 2});
  const auto local = make_local_servers(config, 2);
  auto workers = local_workers(*local, config, 0.0F);
  std::atomic<int> used[ranks] = {};
  all_at_once(ranks, [&](int worker) {
    Random random(static_cast<std::uint64_t>(worker) + 11);
    Worker& mine = workers[static_cast<std::size_t>(worker)];
    std::uint64_t version = 0;
    for (int step = 0; step < steps; ++step) {
      if (random.below(2) == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.below(800)));
      const Push push = mine.push(1.0F, 1, 1);
      EXPECT_GT(push.version, version);  // it comes forward with every push, dropped or not
      version = push.version;
      if (!push.dropped) ++used[worker];
      mine.weight();  // of one version throughout
    }
    mine.client->rest();
  });
  int total = 0;
  for (const auto& count : used) {
    EXPECT_GT(count, 0);
    total += count;
  }
  workers[0].client->read_weights(workers[0].weights, soon());
  // Gradients of one image in a step of one are not scaled up: each counts as it is.
  EXPECT_EQ(workers[0].weight(), -static_cast<float>(total));
}

}  // namespace
}  // namespace dtrain::parameter_server
