#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "parameter_server/storage.hpp"
#include "tables.hpp"

namespace dtrain::parameter_server {
namespace {

using namespace testing;
using ::testing::HasSubstr;

constexpr const char* token = "a secret";

// A table over servers that listen on free ports of this host.
class Transport : public ::testing::Test {
 protected:
  void start(const TableConfig& with, int servers) {
    config = with;
    for (int index = 0; index < servers; ++index) {
      running.push_back(serve("127.0.0.1:0", {.token = token}));
      running.back()->open(config, index, servers);
      sites.push_back({running.back()->address(), token});
    }
  }

  Worker worker(int index) { return {connect(sites, config, index, {}), config.size}; }

  std::vector<Worker> workers(float value) {
    std::vector<Worker> all;
    for (int index = 0; index < config.workers; ++index) all.push_back(worker(index));
    all_at_once(config.workers, [&](int index) {
      all[static_cast<std::size_t>(index)].initialise(index == 0 ? value : -1.0F);
    });
    return all;
  }

  TableConfig config;
  std::vector<std::unique_ptr<Server>> running;
  std::vector<Site> sites;
};

TEST_F(Transport, BringsTheSameBitsAsServersInThisProcess) {
  const std::size_t size = 3 * Storage::chunk_floats + 100;
  start(table(size, 2, {}, "adam"), 2);
  auto far = workers(0.5F);
  const auto local = make_local_servers(config, 3);
  auto near = local_workers(*local, config, 0.5F);
  for (int step = 1; step <= 5; ++step) {
    const auto values = [&](int worker) {
      std::vector<float> gradients(size);
      for (std::size_t i = 0; i < size; ++i) {
        gradients[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(worker + step)) % 13) - 6.0F;
      }
      return gradients;
    };
    const auto push = [&](Worker& worker, int index) {
      const auto gradients = values(index);
      const Push done = worker.client->push_pull({.values = gradients,
                                                  .images = 3,
                                                  .step_images = 6,
                                                  .update = {.learning_rate = 0.01, .step = step}},
                                                 worker.weights, soon());
      EXPECT_EQ(done.version, static_cast<std::uint64_t>(step));
    };
    all_at_once(2, [&](int index) { push(far[static_cast<std::size_t>(index)], index); });
    all_at_once(2, [&](int index) { push(near[static_cast<std::size_t>(index)], index); });
    EXPECT_EQ(far[0].weights, near[0].weights);
    EXPECT_EQ(far[1].weights, near[0].weights);
  }
  std::vector<float> state(size);
  std::vector<float> expected(size);
  far[1].client->read_state(1, state, soon());
  near[1].client->read_state(1, expected, soon());
  EXPECT_EQ(state, expected);
  EXPECT_EQ(far[0].client->bytes_sent(), 5 * size * sizeof(float));
}

TEST_F(Transport, WritesWeightsAndStates) {
  const std::size_t size = Storage::chunk_floats + 100;
  start(table(size, 2, {}, "sgd"), 2);
  auto all = workers(1.0F);
  const std::vector<float> weights(size, 3.0F);
  const std::vector<float> velocity(size, 2.0F);
  all_at_once(
      2, [&](int index) { all[static_cast<std::size_t>(index)].client->write(weights, {velocity}, soon()); });
  all_at_once(2, [&](int index) {
    all[static_cast<std::size_t>(index)].push(0.5F, 1, 2, {.learning_rate = 1.0, .momentum = 0.5});
  });
  EXPECT_EQ(all[0].weight(), 1.0F);  // 3 - (0.5 x 2 + 2 x 0.5)
}

TEST_F(Transport, AsyncWorkersLoseNoUpdate) {
  start(table(2 * Storage::chunk_floats, 3, {.async = true, .staleness = 2}), 2);
  auto all = workers(0.0F);
  all_at_once(3, [&](int index) {
    for (int step = 0; step < 20; ++step) all[static_cast<std::size_t>(index)].push(1.0F);
  });
  all[0].client->read_weights(all[0].weights, soon());
  EXPECT_EQ(all[0].weight(), -60.0F);
}

TEST_F(Transport, StalenessIsThatOfConstructedTurns) {
  start(table(100, 2, {.async = true}), 2);
  auto all = workers(0.0F);
  all[0].push(1.0F);
  all[0].push(1.0F);
  EXPECT_EQ(all[1].push(1.0F).staleness, 2);
  EXPECT_EQ(all[0].push(1.0F).staleness, 1);
}

TEST_F(Transport, BackupWorkersComeToAnEndAndLoseNothing) {
  start(table(Storage::chunk_floats + 16, 3, {.backups = 1}), 2);
  auto all = workers(0.0F);
  std::atomic<int> used = 0;
  std::atomic<int> dropped = 0;
  all_at_once(3, [&](int index) {
    Worker& mine = all[static_cast<std::size_t>(index)];
    for (int step = 0; step < 20; ++step) {
      if (index == 2) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      (mine.push(1.0F, 1, 1).dropped ? dropped : used) += 1;
      mine.weight();
    }
    mine.client->rest();
  });
  EXPECT_EQ(used + dropped, 60);
  all[0].client->read_weights(all[0].weights, soon());
  EXPECT_EQ(all[0].weight(), -static_cast<float>(used));
}

TEST_F(Transport, WaitsAreEndedByTheServerWhichNamesWhoIsMissing) {
  start(table(100, 2), 2);
  auto all = workers(0.0F);
  try {
    all[0].push(1.0F, 1, 2, descent(), Deadline::in(Seconds(0.1)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::run);
    EXPECT_THAT(error.what(), HasSubstr(" s for the gradients of worker 1 in update 1"));
    EXPECT_THAT(error.advice(), HasSubstr("--timeout"));
  }
  EXPECT_ANY_THROW(all[0].push(1.0F, 1, 2));
  EXPECT_ANY_THROW(all[1].push(1.0F, 1, 2));
}

TEST_F(Transport, AbortEndsWaitsHereAndThere) {
  start(table(100, 3), 1);
  auto all = workers(0.0F);
  auto errors = at_once(2, [&](int thread) {
    if (thread == 0) {
      all[0].push(1.0F, 1, 3);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      all[0].client->abort("worker 1 does not answer for 20 s");
    }
  });
  EXPECT_EQ(message_of(errors[0]), "worker 1 does not answer for 20 s");
  errors = at_once(2, [&](int thread) {
    if (thread == 0) {
      all[1].push(1.0F, 1, 3);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      running[0]->abort("the chief gave up");
    }
  });
  EXPECT_EQ(message_of(errors[0]), "the chief gave up");
}

TEST_F(Transport, AWorkerThatGoesIsMissedAtOnce) {
  start(table(100, 2), 1);
  auto all = workers(0.0F);
  const auto errors = at_once(2, [&](int thread) {
    if (thread == 0) {
      all[0].push(1.0F, 1, 2);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      all[1].client.reset();
    }
  });
  EXPECT_THAT(message_of(errors[0]), HasSubstr("update 1 needs the gradients of worker 1, which has left"));
}

TEST_F(Transport, ClosedTablesSaySoAndNewOnesOpenOnTheSameServer) {
  start(table(100, 1), 1);
  auto old = workers(0.0F);
  old[0].push(1.0F);
  running[0]->close("run");
  EXPECT_THAT(message_of(at_once(1, [&](int) { old[0].push(1.0F); })[0]), HasSubstr("has closed this table"));
  Worker late = worker(0);
  EXPECT_THAT(message_of(at_once(1, [&](int) { late.initialise(0.0F); })[0]),
              HasSubstr("has closed this table"));
  config.name = "next";
  Worker next = worker(0);
  all_at_once(2, [&](int thread) {
    if (thread == 0) {
      next.initialise(2.0F);  // waits until it is open
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      running[0]->open(config, 0, 1);
    }
  });
  next.push(0.5F);
  EXPECT_EQ(next.weight(), 1.5F);
}

TEST_F(Transport, WorkersWaitForServersToListenAndAPortIsFreeAtOnce) {
  start(table(100, 1), 1);
  auto all = workers(0.0F);
  all[0].push(1.0F);
  running.clear();
  Worker early = worker(0);
  all_at_once(2, [&](int thread) {
    if (thread == 0) {
      early.initialise(3.0F);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      running.push_back(serve(sites[0].address, {.token = token}));
      running.back()->open(config, 0, 1);
    }
  });
  early.push(1.0F);
  EXPECT_EQ(early.weight(), 2.0F);
}

TEST_F(Transport, AServerThatIsNotThereIsNamed) {
  start(table(100, 1), 1);
  running.clear();
  Worker worker = this->worker(0);
  std::vector<float> weights(100);
  try {
    worker.client->initialise(weights, Deadline::in(Seconds(0.1)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("parameter server 0 (" + sites[0].address + ") did not"));
  }
}

TEST_F(Transport, AServerThatGoesEndsWaits) {
  start(table(100, 2), 1);
  auto all = workers(0.0F);
  const auto errors = at_once(2, [&](int thread) {
    if (thread == 0) {
      all[0].push(1.0F, 1, 2);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      const TimePoint begin = Clock::now();
      running.clear();
      EXPECT_LT(seconds(Clock::now() - begin), 10.0);
    }
  });
  EXPECT_EQ(message_of(errors[0]), "the parameter server has ended");
}

TEST_F(Transport, APortInUseIsAnEnvironmentError) {
  start(table(100, 1), 1);
  try {
    serve(sites[0].address, {.token = token});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::environment);
    EXPECT_THAT(error.what(), HasSubstr("cannot listen on " + sites[0].address));
  }
}

}  // namespace
}  // namespace dtrain::parameter_server
