#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "ranks.hpp"

namespace dtrain::comm {
namespace {

TEST(Shards, CoverEverythingOnceInWholeLines) {
  for (const std::size_t size : {0UL, 1UL, 15UL, 16UL, 17UL, 33UL, 1000UL, 122570UL, 6573130UL}) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      std::size_t next = 0;
      std::size_t smallest = size;
      std::size_t largest = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const backend::Range shard = shard_of(size, rank, ranks);
        EXPECT_EQ(shard.offset, next);
        EXPECT_TRUE(shard.offset % 16 == 0 || shard.offset == size);
        next = shard.offset + shard.size;
        smallest = std::min(smallest, shard.size);
        largest = std::max(largest, shard.size);
      }
      EXPECT_EQ(next, size);
      EXPECT_LE(largest - smallest, 31U) << size << " over " << ranks;
    }
  }
}

class Collectives : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  LocalGroupConfig config() const { return {.size = ranks(), .oversubscribed = true}; }
};

TEST_P(Collectives, ReduceScatterThenAllGatherIsAllReduce) {
  for (const std::size_t size : {0UL, 5UL, 16UL, 1000UL, 10007UL}) {
    expect_ranks(config(), [&](Communicator& communicator) {
      std::vector<float> data = values_of(communicator.rank(), 3, size);
      const std::vector<float> sum = sum_of(ranks(), 3, size);
      const backend::Range shard = shard_of(size, communicator.rank(), ranks());
      communicator.reduce_scatter(data, ample());
      EXPECT_TRUE(same_bits(std::span(data).subspan(shard.offset, shard.size),
                            std::span(sum).subspan(shard.offset, shard.size)));
      for (std::size_t i = 0; i < size; ++i) {
        if (i < shard.offset || i >= shard.offset + shard.size) data[i] = -7.0F;
      }
      communicator.all_gather(data, ample());
      EXPECT_TRUE(same_bits(data, sum));
      const auto others = static_cast<std::uint64_t>(ranks() - 1);
      EXPECT_EQ(communicator.bytes_sent(), 2 * (others * size * 4 / static_cast<std::uint64_t>(ranks())));
    });
  }
}

TEST_P(Collectives, StartedOnesAreInFlightTogether) {
  constexpr int pieces = 100;  // more than a group keeps in view at once
  expect_ranks(config(), [&](Communicator& communicator) {
    std::vector<std::vector<float>> data;
    std::vector<Ticket> tickets;
    for (int piece = 0; piece < pieces; ++piece) data.push_back(values_of(communicator.rank(), piece, 333));
    for (auto& piece : data) tickets.push_back(communicator.start_reduce_scatter(piece, ample()));
    for (auto& piece : data) tickets.push_back(communicator.start_all_gather(piece, ample()));
    for (std::size_t piece = 0; piece < data.size(); ++piece) {
      communicator.wait_for_own(tickets[data.size() + piece], ample());
      EXPECT_TRUE(same_bits(data[piece], sum_of(ranks(), static_cast<int>(piece), 333))) << piece;
    }
    communicator.wait(tickets.back(), ample());
  });
}

// Rank 1 has no more to do than to come: what the others read of it stays as it is.
TEST_P(Collectives, OwnDataIsThereBeforeTheOthersHaveTheirs) {
  if (ranks() == 1) return;
  std::atomic<bool> read{false};
  expect_ranks(config(), [&](Communicator& communicator) {
    std::vector<float> data(64UL * static_cast<std::size_t>(ranks()),
                            static_cast<float>(communicator.rank()));
    const Ticket ticket = communicator.start_all_gather(data, ample());
    if (communicator.rank() == 1) {
      while (!read) std::this_thread::yield();
    } else {
      communicator.wait_for_own(ticket, ample());
      EXPECT_EQ(data[64], 1.0F);
      EXPECT_EQ(data.front(), 0.0F);
    }
    if (communicator.rank() == 0) read = true;
    communicator.wait(ticket, ample());
    EXPECT_EQ(data.back(), static_cast<float>(ranks() - 1));
  });
}

TEST_P(Collectives, BroadcastGivesTheRootsValues) {
  expect_ranks(config(), [&](Communicator& communicator) {
    for (int root = 0; root < ranks(); ++root) {
      std::vector<float> data = values_of(communicator.rank(), root, 777);
      communicator.broadcast(data, root, ample());
      EXPECT_TRUE(same_bits(data, values_of(root, root, 777)));
    }
    EXPECT_EQ(communicator.bytes_sent(), static_cast<std::uint64_t>(ranks() - 1) * 777 * 4);
  });
}

TEST_P(Collectives, ValuesComeInRankOrder) {
  expect_ranks(config(), [&](Communicator& communicator) {
    for (int i = 0; i < 100; ++i) {
      const std::vector<double> mine = {communicator.rank() + 0.5, static_cast<double>(i)};
      const std::vector<double> all = communicator.all_gather_values(mine, ample());
      ASSERT_EQ(all.size(), static_cast<std::size_t>(2 * ranks()));
      for (int rank = 0; rank < ranks(); ++rank) {
        EXPECT_EQ(all[static_cast<std::size_t>(2 * rank)], rank + 0.5);
        EXPECT_EQ(all[static_cast<std::size_t>(2 * rank + 1)], i);
      }
    }
    EXPECT_TRUE(communicator.all_gather_values({}, ample()).empty());
  });
}

TEST_P(Collectives, NobodyPassesABarrierBeforeAllHaveCome) {
  std::atomic<int> came{0};
  expect_ranks(config(), [&](Communicator& communicator) {
    for (int round = 1; round <= 50; ++round) {
      ++came;
      communicator.barrier(ample());
      EXPECT_GE(came, round * ranks());
      communicator.barrier(ample());
    }
  });
}

TEST_P(Collectives, BlockingOnesFitBetweenThoseInFlight) {
  expect_ranks(config(), [&](Communicator& communicator) {
    std::vector<float> first(500, 1.0F);
    std::vector<float> second(300, 2.0F);
    std::vector<float> root(10, static_cast<float>(communicator.rank()));
    communicator.all_reduce(first, {});
    communicator.broadcast(root, ranks() - 1, ample());
    EXPECT_EQ(first[499], static_cast<float>(ranks()));
    const Ticket ticket = communicator.all_reduce(second, {});
    communicator.barrier(ample());
    communicator.wait(ticket, ample());
    EXPECT_EQ(root[9], static_cast<float>(ranks() - 1));
    EXPECT_EQ(second[0], 2.0F * static_cast<float>(ranks()));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 5, 8),
                         testing::PrintToStringParamName());

TEST(Messages, ArriveInOrder) {
  expect_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    for (int i = 0; i < 200; ++i) {
      std::vector<float> data(static_cast<std::size_t>(i % 50), static_cast<float>(i));
      if (communicator.rank() == 0) {
        communicator.send(data, 1, ample());
      } else {
        std::vector<float> got(data.size());
        communicator.receive(got, 0, ample());
        ASSERT_TRUE(same_bits(got, data));
      }
    }
  });
}

TEST(Messages, NeighboursMayAllSendFirst) {
  expect_ranks({.size = 4, .oversubscribed = true}, [](Communicator& communicator) {
    for (int i = 0; i < 100; ++i) {
      const std::vector<float> mine(64, static_cast<float>(communicator.rank()));
      std::vector<float> got(64);
      communicator.send(mine, (communicator.rank() + 1) % 4, ample());
      communicator.receive(got, (communicator.rank() + 3) % 4, ample());
      ASSERT_EQ(got[63], static_cast<float>((communicator.rank() + 3) % 4));
    }
    EXPECT_EQ(communicator.bytes_sent(), 100U * 64U * 4U);
  });
}

// Rank 0 sits in receive while rank 1 needs its part of the all-reduce before it can send.
TEST(Messages, WaitingForOneGoesOnWithCollectives) {
  expect_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    std::vector<float> data(1000, 1.0F);
    std::vector<float> message(8, 3.0F);
    const Ticket ticket = communicator.all_reduce(data, {});
    if (communicator.rank() == 0) {
      communicator.receive(message, 1, ample());
      communicator.wait(ticket, ample());
    } else {
      communicator.wait(ticket, ample());
      communicator.send(message, 0, ample());
    }
    EXPECT_EQ(data[0], 2.0F);
  });
}

TEST(Messages, RanksOutsideTheGroupAreErrors) {
  expect_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    std::vector<float> data(1);
    EXPECT_THROW(communicator.send(data, 2, ample()), std::logic_error);
    EXPECT_THROW(communicator.receive(data, -1, ample()), std::logic_error);
    EXPECT_THROW(communicator.broadcast(data, 2, ample()), std::logic_error);
    communicator.barrier(ample());
  });
}

TEST(Split, MakesGroupsOrderedByRank) {
  expect_ranks({.size = 6, .oversubscribed = true}, [](Communicator& world) {
    const int rank = world.rank();
    const auto group = world.split(rank % 2, ample());
    EXPECT_EQ(group->size(), 3);
    EXPECT_EQ(group->rank(), rank / 2);
    std::vector<float> data(100, static_cast<float>(rank));
    group->wait(group->all_reduce(data, {}), ample());
    EXPECT_EQ(data[99], rank % 2 == 0 ? 6.0F : 9.0F);

    const auto again = world.split(rank < 5 ? -3 : 4, ample());
    EXPECT_EQ(again->size(), rank < 5 ? 5 : 1);
    const double mine = rank;
    const auto all = again->all_gather_values({&mine, 1}, ample());
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0.0), rank < 5 ? 10.0 : 5.0);

    std::vector<float> ones(10, 1.0F);
    world.wait(world.all_reduce(ones, {}), ample());
    EXPECT_EQ(ones[9], 6.0F);
  });
}

TEST(Split, GroupsOfGroups) {
  expect_ranks({.size = 4, .oversubscribed = true}, [](Communicator& world) {
    auto half = world.split(world.rank() / 2, ample());
    auto alone = half->split(half->rank(), ample());
    EXPECT_EQ(half->size(), 2);
    EXPECT_EQ(alone->size(), 1);
    std::vector<float> data(3, 2.0F);
    alone->wait(alone->all_reduce(data, {}), ample());
    half->wait(half->all_reduce(data, {}), ample());
    EXPECT_EQ(data[2], 4.0F);
  });
}

}  // namespace
}  // namespace dtrain::comm
