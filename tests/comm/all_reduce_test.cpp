#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "ranks.hpp"

namespace dtrain::comm {
namespace {

void all_reduce(Communicator& communicator, std::span<float> data) {
  communicator.wait(communicator.all_reduce(data, {}), ample());
}

class AllReduce : public testing::TestWithParam<int> {
 protected:
  LocalGroupConfig config() const { return {.size = GetParam(), .oversubscribed = true}; }
};

TEST_P(AllReduce, GivesEveryRankTheSumInRankOrder) {
  const int ranks = GetParam();
  constexpr std::size_t sizes[] = {0, 1, 15, 16, 17, 127, 1000, 4097, 122570};
  std::vector<std::vector<float>> sums;
  for (const std::size_t size : sizes) sums.push_back(sum_of(ranks, static_cast<int>(sums.size()), size));
  expect_ranks(config(), [&](Communicator& communicator) {
    for (int number = 0; number < static_cast<int>(std::size(sizes)); ++number) {
      const std::size_t size = sizes[number];
      std::vector<float> data = values_of(communicator.rank(), number, size);
      all_reduce(communicator, data);
      EXPECT_TRUE(same_bits(data, sums[static_cast<std::size_t>(number)]))
          << "rank " << communicator.rank() << ", " << size << " floats";
    }
  });
}

TEST_P(AllReduce, KeepsCollectivesInFlightApartWhateverTheTiming) {
  const int ranks = GetParam();
  constexpr int in_flight = 200;  // more than the ring holds
  const auto size_of = [](int number) { return static_cast<std::size_t>(number * 37 % 500); };
  std::vector<std::vector<float>> sums;
  sums.reserve(in_flight);
  for (int number = 0; number < in_flight; ++number) sums.push_back(sum_of(ranks, number, size_of(number)));
  expect_ranks(config(), [&](Communicator& communicator) {
    std::minstd_rand random(static_cast<unsigned>(communicator.rank()) + 1U);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<float>> data;
      std::vector<Ticket> tickets;
      data.reserve(in_flight);
      for (int number = 0; number < in_flight; ++number) {
        data.push_back(values_of(communicator.rank(), number, size_of(number)));
        tickets.push_back(communicator.all_reduce(data.back(), {}));
        if (random() % 3 == 0) communicator.progress();
        if (random() % 16 == 0) std::this_thread::yield();
        if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (random() % 32 == 0) communicator.wait(tickets[random() % tickets.size()], ample());
      }
      for (std::size_t i = tickets.size(); i-- > 0;) communicator.wait(tickets[i], ample());
      for (int number = 0; number < in_flight; ++number) {
        const auto at = static_cast<std::size_t>(number);
        ASSERT_TRUE(same_bits(data[at], sums[at])) << number;
      }
    }
  });
}

TEST_P(AllReduce, WorksAfterThousandsOfCollectives) {
  const float ranks = static_cast<float>(GetParam());
  expect_ranks(config(), [&](Communicator& communicator) {
    std::vector<float> data(33);
    for (int i = 0; i < 2000; ++i) {
      std::fill(data.begin(), data.end(), static_cast<float>(i));
      all_reduce(communicator, data);
      ASSERT_EQ(data.front(), ranks * static_cast<float>(i));
      ASSERT_EQ(data.back(), ranks * static_cast<float>(i));
    }
  });
}

TEST_P(AllReduce, CountsTheBytesOfItsFormula) {
  const auto ranks = static_cast<std::uint64_t>(GetParam());
  expect_ranks(config(), [&](Communicator& communicator) {
    std::vector<float> data(1000);
    all_reduce(communicator, data);
    all_reduce(communicator, data);
    EXPECT_EQ(communicator.bytes_sent(), 2 * (2 * (ranks - 1) * 4000 / ranks));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduce, testing::Range(1, 9), testing::PrintToStringParamName());

TEST(AllReduceValues, OrderOfTheTestDataMatters) {
  std::vector<float> backwards = values_of(4, 0, 1000);
  for (int rank = 3; rank >= 0; --rank) {
    const auto other = values_of(rank, 0, 1000);
    for (std::size_t i = 0; i < other.size(); ++i) backwards[i] += other[i];
  }
  EXPECT_FALSE(same_bits(backwards, sum_of(5, 0, 1000)));
}

TEST(AllReduceValues, SpinningRanksAgreeToo) {
  expect_ranks({.size = 2}, [](Communicator& communicator) {
    for (int number = 0; number < 300; ++number) {
      std::vector<float> data = values_of(communicator.rank(), number, 5000);
      all_reduce(communicator, data);
      ASSERT_TRUE(same_bits(data, sum_of(2, number, 5000)));
    }
  });
}

TEST(AllReduceValues, NotFiniteValuesPassThrough) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  expect_ranks({.size = 3, .oversubscribed = true}, [](Communicator& communicator) {
    std::vector<float> data(100, 1.0F);
    if (communicator.rank() == 1) {
      data[0] = std::numeric_limits<float>::quiet_NaN();
      data[50] = infinity;
      data[99] = -infinity;
    }
    if (communicator.rank() == 2) data[50] = -infinity;
    all_reduce(communicator, data);
    EXPECT_TRUE(std::isnan(data[0]));
    EXPECT_TRUE(std::isnan(data[50]));
    EXPECT_EQ(data[99], -infinity);
    EXPECT_EQ(data[1], 3.0F);
  });
}

TEST(AllReduceValues, EightTimesThirtyThousandDoesNotOverflow) {
  expect_ranks({.size = 8, .oversubscribed = true}, [](Communicator& communicator) {
    std::vector<float> data(257, 30000.0F);
    all_reduce(communicator, data);
    for (const float value : data) ASSERT_EQ(value / 8.0F, 30000.0F);
  });
}

TEST(AllReduceValues, BuffersNeedNoAlignment) {
  expect_ranks({.size = 3, .oversubscribed = true}, [](Communicator& communicator) {
    const auto shift = static_cast<std::size_t>(communicator.rank()) * 5 + 1;
    std::vector<float> padded(1000 + shift + 1, -1.0F);
    const std::span<float> data = std::span(padded).subspan(shift, 1000);
    std::ranges::copy(values_of(communicator.rank(), 0, 1000), data.begin());
    all_reduce(communicator, data);
    EXPECT_TRUE(same_bits(data, sum_of(3, 0, 1000)));
    EXPECT_EQ(padded[shift - 1], -1.0F);
    EXPECT_EQ(padded.back(), -1.0F);
  });
}

// What lets reductions proceed during backward: a rank that only looks in now and then does its part.
TEST(AllReduceProgress, NeedsNobodyToWait) {
  std::atomic<int> finished{0};
  expect_ranks({.size = 3, .oversubscribed = true}, [&](Communicator& communicator) {
    std::vector<float> data(1000, 1.0F);
    const Ticket ticket = communicator.all_reduce(data, {});
    if (communicator.rank() == 0) {
      communicator.wait(ticket, ample());
      finished = 1;
      EXPECT_EQ(data[999], 3.0F);
    } else {
      while (finished == 0) {
        communicator.progress();
        std::this_thread::yield();
      }
      EXPECT_EQ(data[999], 3.0F);
      communicator.wait(ticket, ample());
    }
  });
}

TEST(AllReduceProgress, WaitsCoverEarlierCollectives) {
  expect_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    std::vector<std::vector<float>> data(10, std::vector<float>(100, 1.0F));
    Ticket last = 0;
    for (auto& d : data) last = communicator.all_reduce(d, {});
    communicator.wait(last, ample());
    for (const auto& d : data) EXPECT_EQ(d[0] + d[99], 4.0F);
  });
}

TEST(AllReduceProgress, RefusesATicketThatWasNeverGiven) {
  for (const int size : {1, 2}) {
    expect_ranks({.size = size, .oversubscribed = true}, [](Communicator& communicator) {
      EXPECT_THROW(communicator.wait(0, ample()), std::logic_error);
    });
  }
}

}  // namespace
}  // namespace dtrain::comm
