#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "comm/gloo/algorithms.hpp"
#include "processes.hpp"

namespace dtrain::comm {
namespace {

using testing::HasSubstr;

constexpr std::size_t odd_sizes[] = {1, 2, 3, 17, 1000, 70001};

// Values whose sums are exact, so that any order gives the same.
std::vector<float> whole_numbers(int rank, std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(i % 100) + static_cast<float>(rank + 1) * 1000.0F;
  }
  return values;
}

std::vector<float> exact_sum(int ranks, std::size_t size) {
  std::vector<float> sum(size);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto values = whole_numbers(rank, size);
    for (std::size_t i = 0; i < size; ++i) sum[i] += values[i];
  }
  return sum;
}

class GlooAlgorithm : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(GlooAlgorithm, SumsToTheSameBitsOnEveryProcessAndInEveryRun) {
  const auto& [algorithm, processes] = GetParam();
  const int ranks = processes;
  std::mutex mutex;
  std::map<std::size_t, std::vector<float>> first_sum;
  expect_exchanges(
      processes,
      [&](Exchange& exchange, cluster::Member&) {
        for (const std::size_t size : odd_sizes) {
          auto exact = whole_numbers(exchange.rank(), size);
          exchange.all_reduce(exact, ample());
          ASSERT_TRUE(same_bits(exact, exact_sum(ranks, size))) << size << " floats";
          for (int run = 0; run < 2; ++run) {
            auto data = values_of(exchange.rank(), 5, size);
            exchange.all_reduce(data, ample());
            const std::lock_guard lock(mutex);
            const auto& expected = first_sum.try_emplace(size, data).first->second;
            ASSERT_TRUE(same_bits(data, expected)) << size << " floats, process " << exchange.rank();
          }
        }
      },
      algorithm);
}

INSTANTIATE_TEST_SUITE_P(All, GlooAlgorithm,
                         testing::Combine(testing::Values("auto", "ring", "ring_chunked", "halving_doubling",
                                                          "bcube"),
                                          testing::Values(1, 2, 3, 4, 5, 8)),
                         [](const auto& chosen) {
                           return fmt::format("{}_{}", std::get<0>(chosen.param), std::get<1>(chosen.param));
                         });

TEST(Gloo, RegisteredAndMovingBuffersGiveTheSameSums) {
  expect_exchanges(3, [](Exchange& exchange, cluster::Member&) {
    std::vector<float> whole(5000);
    exchange.register_buffer(whole);
    for (int round = 0; round < 5; ++round) {
      std::ranges::copy(whole_numbers(exchange.rank(), 5000), whole.begin());
      exchange.all_reduce(std::span(whole).subspan(0, 1000), ample());
      exchange.all_reduce(std::span(whole).subspan(1000, 4000), ample());
      ASSERT_TRUE(same_bits(whole, exact_sum(3, 5000))) << round;
      // Processes that move their buffers at different times still mean the same all-reduce.
      std::vector<std::vector<float>> kept;
      for (int i = 0; i <= (round + exchange.rank()) % 3; ++i) kept.emplace_back(4000);
      auto moved = whole_numbers(exchange.rank(), 4000);
      exchange.all_reduce(moved, ample());
      ASSERT_TRUE(same_bits(moved, exact_sum(3, 4000))) << round;
    }
  });
}

class GlooCollectives : public testing::TestWithParam<int> {};

TEST_P(GlooCollectives, GiveWhatTheyPromise) {
  const int processes = GetParam();
  const auto others = static_cast<std::uint64_t>(processes - 1);
  const auto count = static_cast<std::uint64_t>(processes);
  expect_exchanges(processes, [&](Exchange& exchange, cluster::Member&) {
    const int rank = exchange.rank();
    std::uint64_t bytes = 0;
    for (const std::size_t size : {1UL, 17UL, 1000UL, 100003UL}) {
      auto data = values_of(rank, 3, size);
      const auto sum = sum_of(processes, 3, size);
      const auto mine = shard_of(size, rank, processes);
      exchange.reduce_scatter(data, ample());
      EXPECT_TRUE(same_bits(std::span(data).subspan(mine.offset, mine.size),
                            std::span(sum).subspan(mine.offset, mine.size)));
      exchange.all_gather(data, ample());
      EXPECT_TRUE(same_bits(data, sum)) << size;
      bytes += 2 * (others * size * 4 / count);
      EXPECT_EQ(exchange.bytes_sent(), bytes);

      const int root = static_cast<int>(size) % processes;
      auto told = values_of(rank, 4, size);
      exchange.broadcast(told, root, ample());
      EXPECT_TRUE(same_bits(told, values_of(root, 4, size)));
      bytes += rank == root ? others * size * 4 : 0;

      std::vector<std::byte> piece(size, static_cast<std::byte>(rank + 1));
      std::vector<std::byte> all(size * count);
      exchange.all_gather_bytes(piece, all, ample());
      bytes += others * size;
      for (int other = 0; other < processes; ++other) {
        const auto at = static_cast<std::size_t>(other) * size;
        ASSERT_EQ(all[at], static_cast<std::byte>(other + 1));
        ASSERT_EQ(all[at + size - 1], static_cast<std::byte>(other + 1));
      }
      std::vector<std::byte> to(size * count);
      for (int other = 0; other < processes; ++other) {
        std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(other) * size), size,
                    static_cast<std::byte>(10 * rank + other));
      }
      exchange.all_to_all_bytes(to, all, ample());
      bytes += others * size;
      for (int other = 0; other < processes; ++other) {
        ASSERT_EQ(all[static_cast<std::size_t>(other) * size], static_cast<std::byte>(10 * other + rank));
      }
      exchange.barrier(ample());
      EXPECT_EQ(exchange.bytes_sent(), bytes);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processes, GlooCollectives, testing::Values(1, 2, 3, 5),
                         testing::PrintToStringParamName());

TEST(Gloo, NeighboursMaySendToEachOtherFirst) {
  expect_exchanges(3, [](Exchange& exchange, cluster::Member&) {
    for (const std::size_t size : {0UL, 5UL, 400000UL}) {
      const auto mine = values_of(exchange.rank(), 1, size);
      exchange.send(mine, (exchange.rank() + 1) % 3, ample());
      std::vector<float> got(size);
      exchange.receive(got, (exchange.rank() + 2) % 3, ample());
      EXPECT_TRUE(same_bits(got, values_of((exchange.rank() + 2) % 3, 1, size)));
    }
  });
}

TEST(Gloo, GroupsOfSomeProcessesWorkBesideTheWhole) {
  expect_exchanges(4, [](Exchange& exchange, cluster::Member&) {
    const int odd = exchange.rank() % 2;
    const auto half = exchange.subgroup({odd, odd + 2}, odd == 0 ? "even" : "odd");
    EXPECT_EQ(half->size(), 2);
    EXPECT_EQ(half->rank(), exchange.rank() / 2);
    std::vector<float> data(10, static_cast<float>(exchange.rank()));
    half->all_reduce(data, ample());
    EXPECT_EQ(data[9], static_cast<float>(2 * odd + 2));
    exchange.all_reduce(data, ample());
    EXPECT_EQ(data[0], 12.0F);
  });
}

TEST(GlooFailure, ALossOfTheJobEndsAWaitAtOnceAndNamesIt) {
  const auto errors = run_exchanges(3, [](Exchange& exchange, cluster::Member& member) {
    std::vector<float> data(100000);
    exchange.all_reduce(data, ample());
    if (exchange.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      member.fail(2, "failed: no space on device");
      member.check();
    }
    exchange.all_reduce(data, ample());
  });
  for (const auto& error : errors) EXPECT_THAT(error, HasSubstr("worker 2 failed: no space on device"));
}

TEST(GlooFailure, AProcessThatDoesNotComeEndsTheWaitAtTheDeadline) {
  std::atomic<bool> over{false};
  const auto errors = run_exchanges(
      2,
      [&](Exchange& exchange, cluster::Member&) {
        std::vector<float> data(1000);
        exchange.all_reduce(data, ample());
        if (exchange.rank() == 1) {
          while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          exchange.abort("left");
          return;
        }
        try {
          exchange.all_reduce(data, Deadline::in(Seconds(0.5)));
        } catch (const JobEnded& error) {
          EXPECT_FALSE(error.advice().empty());
          over = true;
          throw;
        }
      },
      "auto", Seconds(0.5));
  EXPECT_THAT(errors[0], HasSubstr("the all-reduce"));
}

TEST(GlooFailure, AbortEndsAWaitFromAnotherThread) {
  const auto errors = run_exchanges(2, [](Exchange& exchange, cluster::Member&) {
    if (exchange.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      exchange.abort("enough");
      return;
    }
    std::vector<float> data(1000);
    exchange.all_reduce(data, ample());
  });
  EXPECT_THAT(errors[0], HasSubstr("the all-reduce"));
}

TEST(GlooFailure, WhoIsBehindIsNamed) {
  std::atomic<bool> over{false};
  const auto job = cluster::make_local_job(2);
  std::string what;
  std::thread late([&] {
    const auto exchange = exchanges().at("gloo").value(
        {.member = job[1].get(), .members = {0, 1}, .name = "t", .timeout = Seconds(0.3), .progress = {}});
    job[1]->announce(3);
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    exchange->abort("left");
  });
  try {
    const auto exchange = exchanges().at("gloo").value(
        {.member = job[0].get(), .members = {0, 1}, .name = "t", .timeout = Seconds(0.3), .progress = [] {
           return cluster::Progress{4};
         }});
    job[0]->announce(4);
    std::vector<float> data(1000);
    exchange->all_reduce(data, ample());
  } catch (const JobEnded& error) {
    what = error.what();
  }
  over = true;
  late.join();
  EXPECT_EQ(what, "worker 1 did not come to the all-reduce within 0.3 s");
}

TEST(GlooNames, AutoAvoidsMessagesThatStall) {
  EXPECT_EQ(choose_gloo_algorithm(4 * kib, 2), "halving_doubling");
  EXPECT_EQ(choose_gloo_algorithm(128 * kib, 2), "ring_chunked");
  EXPECT_EQ(choose_gloo_algorithm(256 * kib, 2), "halving_doubling");  // chunks of 64 KiB
  EXPECT_EQ(choose_gloo_algorithm(mib, 2), "ring_chunked");
  EXPECT_EQ(choose_gloo_algorithm(128 * kib, 4), "ring_chunked");  // halves of 64 KiB
  EXPECT_EQ(choose_gloo_algorithm(512 * kib, 4), "halving_doubling");
  EXPECT_EQ(choose_gloo_algorithm(64 * mib, 4), "ring_chunked");
}

TEST(GlooNames, UnknownAlgorithmsAreRefusedWithTheNearest) {
  try {
    check_gloo_algorithm("ring_chunkd");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_THAT(error.what(), HasSubstr("ring_chunkd"));
    EXPECT_THAT(error.advice(), HasSubstr("did you mean 'ring_chunked'"));
    EXPECT_THAT(error.advice(), HasSubstr("auto, ring, "));
  }
}

TEST(Mpi, RefusesWhereMpirunDidNotStartTheProcess) {
  const auto job = cluster::make_local_job(1);
  try {
    exchanges().at("mpi").value({.member = job[0].get(), .members = {0}, .name = "t", .progress = {}});
    FAIL() << "made";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_THAT(error.what(), HasSubstr("mpirun"));
  }
}

}  // namespace
}  // namespace dtrain::comm
