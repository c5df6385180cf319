#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.hpp"
#include "comm/cuda_local/group.hpp"
#include "comm/nccl/communicator.hpp"
#include "gpus.hpp"

namespace dtrain::comm {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

Deadline soon() { return Deadline::in(Seconds(0.2)); }

void step(Communicator& communicator, std::span<float> data, const Deadline& deadline) {
  communicator.wait(communicator.all_reduce(data, {}), deadline);
  communicator.synchronize(deadline);
}

void wait_for(const std::atomic<bool>& over) {
  while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class Failure : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { cuda_double::reset({.devices = 4}); }
  void TearDown() override { expect_no_leaks(); }
  std::vector<std::string> run(int ranks, const GpuBody& body) const {
    return run_gpus(GetParam(), ranks, body);
  }
  // What rank 0 throws while rank 1 stays away.
  std::string error_without_peer(const GpuBody& body) const {
    std::atomic<bool> over{false};
    const auto errors = run(2, [&](Communicator& communicator, Gpu& gpu) {
      communicator.barrier(ample());
      if (communicator.rank() == 1) return wait_for(over);
      try {
        body(communicator, gpu);
      } catch (...) {
        over = true;
        throw;
      }
      over = true;
    });
    return errors[0];
  }
};

TEST_P(Failure, AMissingRankIsNamedWithinTheDeadline) {
  std::atomic<bool> over{false};
  const auto errors = run(4, [&](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(100));
    step(communicator, data, ample());
    if (communicator.rank() >= 2) return wait_for(over);
    if (communicator.rank() == 1) step(communicator, data, ample());
    try {
      step(communicator, data, soon());
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::run);
      EXPECT_THAT(error.advice(), HasSubstr("rank 2"));
      over = true;
      throw;
    }
  });
  EXPECT_EQ(errors[0], "rank 2 did not reach the all-reduce within 0.2 s (rank 0 waited)");
  EXPECT_EQ(errors[1], errors[0]);
}

TEST_P(Failure, AMissingRankIsNamedByBlockingCollectivesAndMessages) {
  const std::vector<double> values(1);
  EXPECT_EQ(error_without_peer([](Communicator& c, Gpu&) { c.barrier(soon()); }),
            "rank 1 did not reach the barrier within 0.2 s (rank 0 waited)");
  EXPECT_THAT(error_without_peer([](Communicator& c, Gpu& gpu) {
                c.broadcast(gpu.upload(std::vector<float>(4)), 1, soon());
              }),
              StartsWith("rank 1 did not reach the broadcast"));
  EXPECT_THAT(error_without_peer([](Communicator& c, Gpu& gpu) {
                c.reduce_scatter(gpu.upload(std::vector<float>(40)), soon());
              }),
              StartsWith("rank 1 did not reach the reduce-scatter"));
  EXPECT_THAT(error_without_peer([&](Communicator& c, Gpu&) { c.all_gather_values(values, soon()); }),
              StartsWith("rank 1 did not reach the exchange of values"));
  EXPECT_THAT(error_without_peer([](Communicator& c, Gpu&) { c.split(0, soon()); }),
              StartsWith("rank 1 did not reach"));
  EXPECT_EQ(error_without_peer(
                [](Communicator& c, Gpu& gpu) { c.receive(gpu.upload(std::vector<float>(4)), 1, soon()); }),
            "rank 1 did not send a message within 0.2 s (rank 0 waited)");
  EXPECT_THAT(error_without_peer([](Communicator& c, Gpu& gpu) {
                const auto data = gpu.upload(std::vector<float>(4));
                c.send(data, 1, soon());
                c.send(data, 1, soon());
              }),
              StartsWith("rank 1 did not take a message within"));
}

TEST_P(Failure, EndsTheGroupForGood) {
  const std::string error = error_without_peer([](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(10));
    EXPECT_THROW(communicator.barrier(soon()), Error);
    EXPECT_THROW(communicator.progress(), Error);
    EXPECT_THROW(communicator.all_reduce(data, {}), Error);
    EXPECT_THROW(communicator.synchronize(ample()), Error);
    EXPECT_THROW(communicator.receive(data, 1, ample()), Error);
    EXPECT_THROW(communicator.send(data, 1, ample()), Error);
    EXPECT_THROW(communicator.split(0, ample()), Error);
    communicator.all_gather(data, ample());
  });
  EXPECT_THAT(error, StartsWith("rank 1 did not reach the barrier"));
}

TEST_P(Failure, AbortEndsAllWaitsAtOnceNamingRankAndReason) {
  const auto errors = run(4, [](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(1000));
    communicator.barrier(ample());
    if (communicator.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      communicator.abort("no space on device");
      communicator.abort("a second reason");
      communicator.progress();
    }
    if (communicator.rank() == 3) communicator.receive(data, 2, ample());
    step(communicator, data, ample());
  });
  EXPECT_THAT(errors, Each(std::string("rank 2 aborted: no space on device")));
}

TEST_P(Failure, AbortWorksFromAnotherThread) {
  std::atomic<bool> over{false};
  const auto errors = run(2, [&](Communicator& communicator, Gpu&) {
    communicator.barrier(ample());
    if (communicator.rank() == 1) return wait_for(over);
    const std::jthread watcher([&] {
      communicator.abort("stopped by a watcher");
      over = true;
    });
    communicator.barrier(ample());
  });
  EXPECT_EQ(errors[0], "rank 0 aborted: stopped by a watcher");
}

TEST_P(Failure, AbortReachesGroupsThatWereSplitOff) {
  const auto errors = run(4, [](Communicator& world, Gpu&) {
    const auto group = world.split(world.rank() % 2, ample());
    const auto pair = group->split(0, ample());
    if (world.rank() == 3) return world.abort("broken");
    // Ranks 0 and 2 keep each other waiting; rank 1 waits for rank 3.
    if (world.rank() == 2) return world.barrier(ample());
    pair->barrier(ample());
  });
  EXPECT_EQ(errors[0], "rank 3 aborted: broken");
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_EQ(errors[2], errors[0]);
}

TEST_P(Failure, MessagesCallRanksByTheirNumbersInTheWorld) {
  std::atomic<bool> over{false};
  const auto errors = run(4, [&](Communicator& world, Gpu&) {
    const auto half = world.split(world.rank() % 2, ample());
    half->barrier(ample());
    if (world.rank() != 1) return wait_for(over);
    try {
      half->barrier(soon());
    } catch (...) {
      over = true;
      throw;
    }
  });
  EXPECT_EQ(errors[1], "rank 3 did not reach the barrier within 0.2 s (rank 1 waited)");
}

TEST_P(Failure, ARankThatLeavesInTheMiddleEndsTheOthers) {
  const auto errors = run(3, [](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(100));
    step(communicator, data, ample());
    if (communicator.rank() == 2) {
      communicator.receive(data, 1, ample());
    } else {
      const Ticket ticket = communicator.all_reduce(data, {});
      if (communicator.rank() == 1) return;
      communicator.wait(ticket, ample());
      communicator.synchronize(ample());
    }
  });
  EXPECT_EQ(errors[0], "rank 1 left in the middle of an all-reduce");
  EXPECT_EQ(errors[2], errors[0]);
}

// The device works in a rank's buffers until it is told to stop; they are freed when the rank has failed.
TEST_P(Failure, NobodyTouchesBuffersOfARankThatFailed) {
  for (int round = 0; round < 5; ++round) {
    const auto errors = run(3, [&](Communicator& communicator, Gpu& gpu) {
      std::vector<std::span<float>> data;
      Ticket last = 0;
      for (int i = 0; i < 20; ++i) data.push_back(gpu.upload(std::vector<float>(2000, 1.0F)));
      for (const auto d : data) last = communicator.all_reduce(d, {});
      if (communicator.rank() == 1) {
        for (int i = 0; i < round; ++i) communicator.progress();
        return communicator.abort("on purpose");
      }
      communicator.wait(last, ample());
      communicator.synchronize(ample());
    });
    EXPECT_EQ(errors[1], "");
    for (const int rank : {0, 2}) {
      const std::string& error = errors[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(error.empty() || error == "rank 1 aborted: on purpose") << error;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Failure, testing::Values(nccl(), cuda_local()),
                         testing::PrintToStringParamName());

class NcclFailure : public testing::Test {
 protected:
  void SetUp() override { cuda_double::reset({.devices = 4}); }
  void TearDown() override { expect_no_leaks(); }
};

TEST_F(NcclFailure, ARankThatDoesNotJoinIsNamed) {
  Gpu gpu(0);
  const auto group = nccl().make({.size = 3});
  const auto communicator = group->join(0, gpu.stream());
  try {
    communicator->barrier(soon());
    FAIL() << "passed without the others";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 did not join within 0.2 s (rank 0 waited)");
  }
}

TEST_F(NcclFailure, TwoRanksOnOneGpuAreRefusedBeforeNcclIsAsked) {
  Gpu gpu(1);
  Gpu other(2);
  const auto group = nccl().make({.size = 4});
  const auto first = group->join(3, gpu.stream());
  const auto second = group->join(2, other.stream());
  const int asked = cuda_double::calls()["ncclCommInitRankConfig"];
  try {
    group->join(0, gpu.stream());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::environment);
    EXPECT_STREQ(error.what(), "ranks 0 and 3 are both on GPU 1, and NCCL takes one rank a GPU");
    EXPECT_THAT(error.advice(), HasSubstr("--oversubscribe"));
  }
  EXPECT_EQ(cuda_double::calls()["ncclCommInitRankConfig"], asked);
  EXPECT_THROW(first->barrier(ample()), Error);
}

// Nobody is missing: a GPU does not come to the collective that its rank has started.
TEST_F(NcclFailure, AGpuThatHangsIsGivenUp) {
  std::atomic<bool> hung{false};
  const auto errors = run_gpus(nccl(), 2, [&](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(100));
    step(communicator, data, ample());
    if (communicator.rank() == 0) {
      cuda_double::hang_nccl_rank(1);
      hung = true;
    }
    wait_for(hung);
    step(communicator, data, communicator.rank() == 0 ? soon() : ample());
  });
  EXPECT_THAT(errors, Each(std::string("the all-reduce did not end within 0.2 s (rank 0 waited; no rank is "
                                       "known to be late)")));
}

TEST_F(NcclFailure, AGpuThatFailsEndsTheGroup) {
  cuda_double::fail("ncclAllReduce execution", 3, cudaErrorIllegalAddress);
  const auto errors = run_gpus(nccl(), 2, [](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(100));
    step(communicator, data, ample());
    step(communicator, data, ample());
  });
  EXPECT_THAT(errors[0], AllOf(StartsWith("rank "), HasSubstr("illegal")));
  EXPECT_THAT(errors, Each(errors[0]));
}

// The double notices when ranks disagree, and tells it the way NCCL tells of what happens in the background;
// a rank that has not enqueued yet hears of it then.
TEST_F(NcclFailure, AnAsynchronousErrorEndsTheGroup) {
  const auto errors = run_gpus(nccl(), 3, [](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(100));
    step(communicator, data, ample());
    step(communicator, data.first(communicator.rank() == 2 ? 99 : 100), ample());
  });
  EXPECT_THAT(errors[0],
              AllOf(StartsWith("rank "), HasSubstr("ncclAllReduce of 99"),
                    AnyOf(HasSubstr("NCCL failed in the all-reduce: "), HasSubstr("ncclAllReduce("))));
  EXPECT_THAT(errors, Each(errors[0]));
}

TEST_F(NcclFailure, WithoutARosterNobodyIsNamed) {
  const NcclId id = make_nccl_id();
  std::atomic<bool> over{false};
  std::vector<std::string> errors(2);
  const auto rank_of = [&](int rank) {
    Gpu gpu(rank);
    const auto communicator = make_nccl_communicator(id, rank, 2, gpu.stream(), {});
    const auto data = gpu.upload(std::vector<float>(10, 1.0F));
    step(*communicator, data, ample());
    EXPECT_EQ(gpu.download(data)[9], 2.0F);
    if (rank == 1) {
      wait_for(over);
      return communicator->abort("enough");
    }
    try {
      communicator->barrier(soon());
    } catch (const Error& error) {
      errors[0] = error.what();
    }
    over = true;
  };
  std::thread other(rank_of, 1);
  rank_of(0);
  other.join();
  EXPECT_EQ(errors[0], "the barrier did not end within 0.2 s (rank 0 waited; no rank is known to be late)");
}

class CudaLocalFailure : public testing::Test {
 protected:
  void SetUp() override { cuda_double::reset(); }
  void TearDown() override { expect_no_leaks(); }
};

TEST_F(CudaLocalFailure, DisagreementNamesRanksAndSizes) {
  const auto errors = run_gpus(cuda_local(), 3, [](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(communicator.rank() == 2 ? 999 : 1000));
    step(communicator, data, ample());
  });
  EXPECT_THAT(errors,
              Each(std::string("rank 0 started all-reduce of 1000 floats but rank 2 all-reduce of 999 "
                               "floats (collective 0 of the group)")));
}

TEST_F(CudaLocalFailure, DisagreementOfAMessagesLengthNamesBothRanks) {
  const auto errors = run_gpus(cuda_local(), 2, [](Communicator& communicator, Gpu& gpu) {
    const auto data = gpu.upload(std::vector<float>(communicator.rank() == 0 ? 10 : 11));
    if (communicator.rank() == 0) communicator.send(data, 1, ample());
    if (communicator.rank() == 1) communicator.receive(data, 0, ample());
  });
  EXPECT_EQ(errors[1], "rank 0 sent 10 floats to rank 1, which expected 11");
}

TEST_F(CudaLocalFailure, MoreRanksThanTheKernelSumsAreRefused) {
  try {
    make_cuda_local_group({.size = 17});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_STREQ(error.what(), "17 replicas that share GPUs: at most 16 can");
  }
}

}  // namespace
}  // namespace dtrain::comm
