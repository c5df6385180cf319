#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "gpus.hpp"

namespace dtrain::comm {
namespace {

struct Case {
  Kind kind;
  int ranks;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.kind << " with " << c.ranks; }

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.kind.name + "_" + std::to_string(info.param.ranks);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    cases.push_back({nccl(), ranks});
    cases.push_back({cuda_local(), ranks});
  }
  cases.push_back({cuda_local_two_a_gpu(), 4});
  return cases;
}

class Contract : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { cuda_double::reset({.devices = 4}); }
  const Kind& kind() const { return GetParam().kind; }
  int ranks() const { return GetParam().ranks; }
  std::uint64_t others() const { return static_cast<std::uint64_t>(ranks() - 1); }
  void expect(const GpuBody& body) const { expect_gpus(kind(), ranks(), body); }
};

// No step of it waits on the host: streams alone keep the order of copies, sums and copies back.
TEST_P(Contract, AllReduceSumsWhatTheStreamHasPut) {
  constexpr std::size_t sizes[] = {0, 1, 15, 16, 17, 127, 1000, 4097, 122570};
  cuda_double::slow("memcpy execution", std::chrono::milliseconds(2));
  expect([&](Communicator& communicator, Gpu& gpu) {
    for (int number = 0; number < static_cast<int>(std::size(sizes)); ++number) {
      const std::size_t size = sizes[number];
      const auto data = gpu.upload(values_of(communicator.rank(), number, size));
      const backend::DeviceToken ready = number % 2 == 0 ? gpu.mark() : backend::DeviceToken{};
      communicator.wait(communicator.all_reduce(data, ready), ample());
      expect_sum(kind(), gpu.download(data), sum_of(ranks(), number, size));
    }
  });
}

TEST_P(Contract, KeepsCollectivesInFlightApart) {
  constexpr int in_flight = 70;  // more than there are places for
  expect([&](Communicator& communicator, Gpu& gpu) {
    std::vector<std::span<float>> data;
    std::vector<Ticket> tickets;
    for (int number = 0; number < in_flight; ++number) {
      data.push_back(gpu.upload(values_of(communicator.rank(), number, 50)));
      tickets.push_back(communicator.all_reduce(data.back(), gpu.mark()));
      if (number % 7 == communicator.rank()) communicator.progress();
      if (number % 32 == 20) communicator.wait(tickets[tickets.size() / 2], ample());
    }
    for (std::size_t i = tickets.size(); i-- > 0;) communicator.wait(tickets[i], ample());
    for (int number = 0; number < in_flight; ++number) {
      expect_sum(kind(), gpu.download(data[static_cast<std::size_t>(number)]), sum_of(ranks(), number, 50));
    }
  });
}

TEST_P(Contract, SynchronizeReturnsWhenAllIsDone) {
  if (ranks() == 1) GTEST_SKIP() << "a group of one need not do anything";
  cuda_double::slow("kernel execution", std::chrono::milliseconds(5));
  expect([&](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(1000, 1.0F));
    communicator.wait(communicator.all_reduce(data, gpu.mark()), ample());
    communicator.synchronize(ample());
    // The double's device memory is the host's.
    EXPECT_EQ(data[0], static_cast<float>(ranks()));
    EXPECT_EQ(data[999], static_cast<float>(ranks()));
  });
}

TEST_P(Contract, ReduceScatterThenAllGatherIsAllReduce) {
  for (const std::size_t size : {0UL, 5UL, 16UL, 192UL, 1000UL, 10007UL}) {
    expect([&](Communicator& communicator, Gpu& gpu) {
      const auto data = gpu.upload(values_of(communicator.rank(), 3, size));
      const std::vector<float> sum = sum_of(ranks(), 3, size);
      const backend::Range shard = shard_of(size, communicator.rank(), ranks());
      communicator.reduce_scatter(data, ample());
      const auto mine = gpu.download(data.subspan(shard.offset, shard.size));
      expect_sum(kind(), mine, std::span(sum).subspan(shard.offset, shard.size));
      std::vector<float> only_mine(size, -7.0F);
      std::ranges::copy(mine, only_mine.begin() + static_cast<std::ptrdiff_t>(shard.offset));
      const auto shares = gpu.upload(only_mine);
      communicator.all_gather(shares, ample());
      expect_sum(kind(), gpu.download(shares), sum);
      EXPECT_EQ(communicator.bytes_sent(), 2 * (others() * size * 4 / static_cast<std::uint64_t>(ranks())));
    });
  }
}

TEST_P(Contract, BroadcastGivesTheRootsValues) {
  expect([&](Communicator& communicator, Gpu& gpu) {
    for (int root = 0; root < ranks(); ++root) {
      const auto data = gpu.upload(values_of(communicator.rank(), root, 777));
      communicator.broadcast(data, root, ample());
      EXPECT_TRUE(same_bits(gpu.download(data), values_of(root, root, 777)));
    }
    EXPECT_EQ(communicator.bytes_sent(), others() * 777 * 4);
  });
}

TEST_P(Contract, ValuesComeInRankOrder) {
  expect([&](Communicator& communicator, Gpu&) {
    for (int i = 0; i < 20; ++i) {
      const std::vector<double> mine(static_cast<std::size_t>(i), communicator.rank() + i / 7.0);
      const std::vector<double> all = communicator.all_gather_values(mine, ample());
      ASSERT_EQ(all.size(), static_cast<std::size_t>(i * ranks()));
      for (int at = 0; at < i * ranks(); ++at) {
        EXPECT_EQ(all[static_cast<std::size_t>(at)], at / i + i / 7.0);
      }
    }
    EXPECT_EQ(communicator.bytes_sent(), others() * 190 * 8);
  });
}

TEST_P(Contract, NobodyPassesABarrierBeforeAllHaveCome) {
  std::atomic<int> came{0};
  expect([&](Communicator& communicator, Gpu&) {
    for (int round = 1; round <= 10; ++round) {
      ++came;
      communicator.barrier(ample());
      EXPECT_GE(came, round * ranks());
      communicator.barrier(ample());
    }
    EXPECT_EQ(communicator.bytes_sent(), 0U);
  });
}

TEST_P(Contract, BlockingOnesFitBetweenThoseInFlight) {
  expect([&](Communicator& communicator, Gpu& gpu) {
    const auto first = gpu.upload(std::vector<float>(500, 1.0F));
    const auto second = gpu.upload(std::vector<float>(300, 2.0F));
    const auto root = gpu.upload(std::vector<float>(10, static_cast<float>(communicator.rank())));
    const Ticket earlier = communicator.all_reduce(first, {});
    communicator.broadcast(root, ranks() - 1, ample());
    const Ticket later = communicator.all_reduce(second, {});
    communicator.barrier(ample());
    communicator.wait(earlier, ample());
    communicator.wait(later, ample());
    EXPECT_EQ(gpu.download(first)[499], static_cast<float>(ranks()));
    EXPECT_EQ(gpu.download(second)[0], 2.0F * static_cast<float>(ranks()));
    EXPECT_EQ(gpu.download(root)[9], static_cast<float>(ranks() - 1));
  });
}

TEST_P(Contract, CountsTheBytesOfItsFormula) {
  expect([&](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(1001));
    Ticket last = 0;
    for (int i = 0; i < 2; ++i) last = communicator.all_reduce(data, {});
    communicator.wait(last, ample());
    communicator.synchronize(ample());
    EXPECT_EQ(communicator.bytes_sent(), 2 * (2 * others() * 4004 / static_cast<std::uint64_t>(ranks())));
  });
}

TEST_P(Contract, NeighboursMayAllSendFirst) {
  if (ranks() == 1) GTEST_SKIP() << "a group of one has no neighbours";
  expect([&](Communicator& communicator, Gpu& gpu) {
    const int next = (communicator.rank() + 1) % ranks();
    const int previous = (communicator.rank() + ranks() - 1) % ranks();
    for (int i = 0; i < 5; ++i) {
      const auto mine = gpu.upload(values_of(communicator.rank(), i, 64));
      const auto got = gpu.upload(std::vector<float>(64));
      communicator.send(mine, next, ample());
      communicator.receive(got, previous, ample());
      EXPECT_TRUE(same_bits(gpu.download(got), values_of(previous, i, 64)));
    }
    EXPECT_EQ(communicator.bytes_sent(), 5U * 64U * 4U);
  });
}

TEST_P(Contract, MessagesArriveInOrder) {
  if (ranks() == 1) GTEST_SKIP() << "a group of one has nobody to write to";
  expect([&](Communicator& communicator, Gpu& gpu) {
    for (int i = 0; i < 20; ++i) {
      const auto size = static_cast<std::size_t>(i % 5 * 10);
      if (communicator.rank() == 0) communicator.send(gpu.upload(values_of(0, i, size)), 1, ample());
      if (communicator.rank() != 1) continue;
      const auto got = gpu.upload(std::vector<float>(size));
      communicator.receive(got, 0, ample());
      EXPECT_TRUE(same_bits(gpu.download(got), values_of(0, i, size)));
    }
  });
}

// One rank sits in receive while the other needs its part of the all-reduce before it can send.
TEST_P(Contract, WaitingForAMessageGoesOnWithCollectives) {
  if (ranks() != 2) GTEST_SKIP() << "a matter of two ranks";
  expect([&](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(1000, 1.0F));
    const auto message = gpu.upload(std::vector<float>(8, 3.0F));
    const Ticket ticket = communicator.all_reduce(data, gpu.mark());
    if (communicator.rank() == 0) {
      communicator.receive(message, 1, ample());
      communicator.wait(ticket, ample());
    } else {
      communicator.wait(ticket, ample());
      communicator.send(message, 0, ample());
    }
    EXPECT_EQ(gpu.download(data)[0], 2.0F);
  });
}

TEST_P(Contract, SplitMakesGroupsOrderedByRank) {
  expect([&](Communicator& world, Gpu& gpu) {
    const int parity = world.rank() % 2;
    const auto group = world.split(parity == 0 ? -3 : 4, ample());
    const int members = (ranks() + 1 - parity) / 2;
    EXPECT_EQ(group->size(), members);
    EXPECT_EQ(group->rank(), world.rank() / 2);
    const auto data = gpu.upload(std::vector<float>(100, static_cast<float>(world.rank() + 1)));
    group->wait(group->all_reduce(data, gpu.mark()), ample());
    float sum = 0.0F;
    for (int rank = parity; rank < ranks(); rank += 2) sum += static_cast<float>(rank + 1);
    EXPECT_EQ(gpu.download(data)[99], sum);
    const auto pair = group->split(0, ample());
    EXPECT_EQ(pair->size(), members);
    const auto ones = gpu.upload(std::vector<float>(10, 1.0F));
    world.wait(world.all_reduce(ones, {}), ample());
    EXPECT_EQ(gpu.download(ones)[9], static_cast<float>(ranks()));
    pair->barrier(ample());
  });
}

TEST_P(Contract, WhatWasNeverStartedOrIsNotThereIsRefused) {
  expect([&](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(1));
    EXPECT_THROW(communicator.wait(0, ample()), std::logic_error);
    EXPECT_THROW(communicator.broadcast(data, ranks(), ample()), std::logic_error);
    EXPECT_THROW(communicator.send(data, ranks(), ample()), std::logic_error);
    EXPECT_THROW(communicator.receive(data, -1, ample()), std::logic_error);
    communicator.barrier(ample());
  });
}

TEST_P(Contract, ARegisteredBufferIsLetGo) {
  expect([&](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(100, 1.0F));
    communicator.register_buffer(data);
    communicator.register_buffer({});
    communicator.wait(communicator.all_reduce(data.subspan(20, 30), gpu.mark()), ample());
    EXPECT_EQ(gpu.download(data)[25], static_cast<float>(ranks()));
    EXPECT_EQ(gpu.download(data)[50], 1.0F);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Contract, testing::ValuesIn(all_cases()), name_of);

TEST(Groups, JoinEachRankOnce) {
  for (const Kind& kind : {nccl(), cuda_local()}) {
    cuda_double::reset({.devices = 2});
    {
      Gpu first(0);
      Gpu second(kind.device_of(1));
      const auto group = kind.make({.size = 2});
      const auto communicator = group->join(0, first.stream());
      EXPECT_EQ(communicator->rank(), 0);
      EXPECT_EQ(communicator->size(), 2);
      EXPECT_EQ(communicator->only_enqueues(), kind.name == "nccl");
      EXPECT_THROW(group->join(0, first.stream()), std::logic_error);
      EXPECT_THROW(group->join(2, second.stream()), std::logic_error);
      EXPECT_THROW(group->join(-1, second.stream()), std::logic_error);
      EXPECT_THROW(group->join(1), std::logic_error);
      EXPECT_THROW(kind.make({.size = 0}), std::logic_error);
    }
    expect_no_leaks();
  }
}

}  // namespace
}  // namespace dtrain::comm
