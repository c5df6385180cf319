#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.hpp"
#include "comm/lane.hpp"
#include "processes.hpp"

namespace dtrain::comm {
namespace {

using testing::HasSubstr;

TEST(LaneOrder, JobsAreDoneInOrderAndEnqueueNeverWaits) {
  Lane lane(Patience{});
  std::vector<int> order;
  std::atomic<bool> go{false};
  lane.enqueue([&] {
    while (!go) std::this_thread::yield();
  });
  Lane::Number last = 0;
  for (int i = 0; i < 1000; ++i) last = lane.enqueue([&order, i] { order.push_back(i); });
  EXPECT_FALSE(lane.done(0));
  EXPECT_FALSE(lane.wait(0, Deadline::in(Seconds(0.02))));
  go = true;
  EXPECT_TRUE(lane.wait(last, ample()));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(LaneFailure, TheFirstOneSticks) {
  Lane lane(Patience{});
  const auto bad = lane.enqueue([] { throw JobEnded("worker 1 is gone", "look there"); });
  bool ran = false;
  try {
    lane.wait(bad, ample());
    FAIL() << "no throw";
  } catch (const JobEnded& error) {
    EXPECT_STREQ(error.what(), "worker 1 is gone");
    EXPECT_EQ(error.advice(), "look there");
  }
  lane.fail(Failure(run_error("a later one", "")));
  EXPECT_THROW(lane.enqueue([&] { ran = true; }), JobEnded);
  EXPECT_THROW(lane.check(), JobEnded);
  EXPECT_FALSE(ran);
}

TEST(LaneFailure, FromOutsideEndsWaits) {
  Lane lane(Patience{});
  std::atomic<bool> go{false};
  const auto job = lane.enqueue([&] {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::thread other([&] {
    lane.fail(Failure(environment_error("stop", "because")));
    go = true;
  });
  try {
    while (!lane.wait(job, ample())) {
    }
    lane.check();
    FAIL() << "no throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "stop");
  }
  other.join();
}

class Spanning : public testing::TestWithParam<std::tuple<std::vector<int>, bool>> {
 protected:
  const std::vector<int>& counts() const { return std::get<0>(GetParam()); }
  bool gloo() const { return std::get<1>(GetParam()); }
  int ranks() const {
    int sum = 0;
    for (const int count : counts()) sum += count;
    return sum;
  }
  void expect(const Body& body) const { expect_spanning(counts(), body, {}, gloo()); }
  bool first_of_process(int rank) const {
    int at = 0;
    for (const int count : counts()) {
      if (rank == at) return true;
      at += count;
    }
    return false;
  }
};

// What each process adds up first, then the exchange in one order or another: whole numbers are exact.
std::vector<float> numbers(int rank, std::size_t size) {
  return std::vector<float>(size, static_cast<float>(rank + 1));
}

TEST_P(Spanning, ManyAllReducesInFlightGiveTheSums) {
  const float sum = static_cast<float>(ranks() * (ranks() + 1) / 2);
  expect([&](Communicator& communicator) {
    EXPECT_EQ(communicator.size(), ranks());
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<float>> data;
      std::vector<Ticket> tickets;
      for (std::size_t i = 0; i < 30; ++i) {
        data.push_back(numbers(communicator.rank(), i * 37));
        tickets.push_back(communicator.all_reduce(data.back(), {}));
        if (i % 5 == 0) communicator.progress();
      }
      for (std::size_t i = tickets.size(); i-- > 0;) communicator.wait(tickets[i], ample());
      for (const auto& d : data) {
        for (const float value : d) ASSERT_EQ(value, sum);
      }
    }
  });
}

TEST_P(Spanning, CollectivesGiveWhatTheyPromise) {
  const float sum = static_cast<float>(ranks() * (ranks() + 1) / 2);
  expect([&](Communicator& communicator) {
    const int rank = communicator.rank();
    for (const std::size_t size : {1UL, 16UL, 1000UL, 10007UL}) {
      auto data = numbers(rank, size);
      const auto mine = shard_of(size, rank, ranks());
      communicator.reduce_scatter(data, ample());
      for (std::size_t i = 0; i < mine.size; ++i) ASSERT_EQ(data[mine.offset + i], sum) << size;
      for (std::size_t i = 0; i < size; ++i) {
        if (i < mine.offset || i >= mine.offset + mine.size) data[i] = -7.0F;
      }
      communicator.all_gather(data, ample());
      for (const float value : data) ASSERT_EQ(value, sum) << size;
    }
    for (int root = 0; root < ranks(); ++root) {
      auto data = values_of(rank, root, 777);
      communicator.broadcast(data, root, ample());
      EXPECT_TRUE(same_bits(data, values_of(root, root, 777))) << root;
    }
    const std::vector<double> mine = {rank + 0.5, -1.0 * rank};
    const auto all = communicator.all_gather_values(mine, ample());
    ASSERT_EQ(all.size(), static_cast<std::size_t>(2 * ranks()));
    for (int other = 0; other < ranks(); ++other) {
      EXPECT_EQ(all[static_cast<std::size_t>(2 * other)], other + 0.5);
      EXPECT_EQ(all[static_cast<std::size_t>(2 * other + 1)], -1.0 * other);
    }
    communicator.barrier(ample());
  });
}

TEST_P(Spanning, MessagesFindTheirRanks) {
  expect([&](Communicator& communicator) {
    const int rank = communicator.rank();
    for (std::size_t size = 0; size < 40; size += 13) {
      for (int distance = 1; distance < ranks(); ++distance) {
        const int to = (rank + distance) % ranks();
        const int from = (rank + ranks() - distance) % ranks();
        communicator.send(values_of(rank, to, size), to, ample());
        std::vector<float> got(size);
        communicator.receive(got, from, ample());
        ASSERT_TRUE(same_bits(got, values_of(from, rank, size))) << from << " to " << rank;
      }
    }
  });
}

TEST_P(Spanning, SplitsIntoGroupsOfAnyRanks) {
  expect([&](Communicator& world) {
    for (const int modulus : {2, 1}) {
      const int colour = world.rank() % modulus;
      const auto part = world.split(colour, ample());
      std::vector<float> data(100, static_cast<float>(world.rank()));
      part->wait(part->all_reduce(data, {}), ample());
      float expected = 0.0F;
      int members = 0;
      for (int rank = colour; rank < ranks(); rank += modulus) {
        if (rank == world.rank()) {
          EXPECT_EQ(part->rank(), members);
        }
        expected += static_cast<float>(rank);
        ++members;
      }
      EXPECT_EQ(part->size(), members);
      EXPECT_EQ(data[99], expected);
    }
  });
}

TEST_P(Spanning, CountsBytesBetweenProcessesOnce) {
  const auto processes = static_cast<std::uint64_t>(counts().size());
  expect([&](Communicator& communicator) {
    std::vector<float> data(1000);
    communicator.wait(communicator.all_reduce(data, {}), ample());
    const std::uint64_t expected =
        first_of_process(communicator.rank()) ? 2 * (processes - 1) * 4000 / processes : 0;
    EXPECT_EQ(communicator.bytes_sent(), expected);
    EXPECT_EQ(communicator.bytes_uncompressed(), expected);
    communicator.barrier(ample());
  });
}

INSTANTIATE_TEST_SUITE_P(Processes, Spanning,
                         testing::Combine(testing::Values(std::vector{2}, std::vector{1, 1},
                                                          std::vector{2, 2}, std::vector{1, 3},
                                                          std::vector{2, 1, 3}),
                                          testing::Bool()),
                         [](const auto& chosen) {
                           std::string name = std::get<1>(chosen.param) ? "gloo" : "threads";
                           for (const int count : std::get<0>(chosen.param))
                             name += fmt::format("_{}", count);
                           return name;
                         });

TEST(SpanningFailure, LocalRanksThatDisagreeAreNamed) {
  const auto errors = run_spanning(
      {3, 1},
      [](Communicator& communicator) {
        std::vector<float> data(communicator.rank() == 2 ? 999 : 1000);
        communicator.wait(communicator.all_reduce(data, {}), ample());
      },
      {.timeout = Seconds(1)}, false);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(errors[static_cast<std::size_t>(rank)],
              "rank 0 started all-reduce of 1000 floats but rank 2 all-reduce of 999 floats (collective 0 of "
              "the group)");
  }
}

TEST(SpanningFailure, ALocalRankThatDoesNotComeIsNamed) {
  std::atomic<bool> over{false};
  const auto errors = run_spanning(
      {2, 1},
      [&](Communicator& communicator) {
        std::vector<float> data(100);
        if (communicator.rank() == 1) {
          while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return;
        }
        const auto deadline = communicator.rank() == 0 ? Deadline::in(Seconds(0.1)) : ample();
        try {
          communicator.wait(communicator.all_reduce(data, {}), deadline);
        } catch (...) {
          over = true;
          throw;
        }
      },
      {.timeout = Seconds(10)}, false);
  EXPECT_EQ(errors[0], "rank 1 did not reach the all-reduce within 0.1 s (rank 0 waited)");
}

TEST(SpanningFailure, AbortEndsLocalWaitsAndReachesGroupsThatWereSplitOff) {
  const auto errors = run_spanning(
      {2, 1},
      [](Communicator& world) {
        const auto pair = world.split(0, ample());
        if (world.rank() == 1) {
          world.abort("no space on device");
          pair->barrier(ample());
        }
        pair->barrier(ample());
      },
      {.timeout = Seconds(10)}, false);
  EXPECT_EQ(errors[0], "rank 1 aborted: no space on device");
  EXPECT_EQ(errors[1], "rank 1 aborted: no space on device");
}

TEST(SpanningFailure, LeavingInTheMiddleEndsTheOthers) {
  std::vector<std::vector<float>> data(3, std::vector<float>(100));  // outlives the communicators
  const auto errors = run_spanning(
      {2, 1},
      [&](Communicator& communicator) {
        const Ticket ticket =
            communicator.all_reduce(data[static_cast<std::size_t>(communicator.rank())], {});
        if (communicator.rank() == 0) {
          communicator.barrier(ample());
        } else if (communicator.rank() == 2) {
          communicator.wait(ticket, ample());
          communicator.barrier(ample());
        }
      },
      {.timeout = Seconds(2)}, false);
  EXPECT_THAT(errors[0], HasSubstr("rank"));
  EXPECT_THAT(errors[2], HasSubstr("rank"));
}

TEST(SpanningStart, IsToldOfEveryAllReduceOnce) {
  std::atomic<int> started{0};
  expect_spanning(
      {2, 1},
      [](Communicator& communicator) {
        std::vector<float> data(10);
        for (int i = 0; i < 5; ++i) communicator.wait(communicator.all_reduce(data, {}), ample());
        communicator.barrier(ample());
      },
      {.on_start = [&] { ++started; }}, false);
  EXPECT_EQ(started, 10);
}

TEST(CompressedLocal, RanksAgreeAndSendFewerBytes) {
  const auto group = make_compressed_local_group({.size = 3, .oversubscribed = true}, "fp16", 1);
  std::vector<std::vector<float>> sums(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group->join(rank);
      std::vector<float> data(1000, 0.1F * static_cast<float>(rank + 1));
      communicator->wait(communicator->all_reduce(data, {}), ample());
      EXPECT_NEAR(data[500], 0.6F, 1e-3F);
      EXPECT_LT(communicator->bytes_sent(), communicator->bytes_uncompressed());
      EXPECT_EQ(communicator->bytes_uncompressed(), 2U * 2U * 4000U / 3U);
      sums[static_cast<std::size_t>(rank)] = data;
      const auto pair = communicator->split(rank / 2, ample());
      EXPECT_EQ(pair->size(), rank < 2 ? 2 : 1);
      pair->barrier(ample());
      communicator->barrier(ample());
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(same_bits(sums[0], sums[1]));
  EXPECT_TRUE(same_bits(sums[0], sums[2]));
}

}  // namespace
}  // namespace dtrain::comm
