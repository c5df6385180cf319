#include <bit>

#include "support.hpp"

namespace cuda_double {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

#define EXPECT_NCCL(call) EXPECT_EQ(call, ncclSuccess) << last_refusal()

// One communicator, stream and buffer of floats a rank.
class Nccl : public DoubleTest {
 protected:
  void SetUp() override { start(3); }
  void TearDown() override {
    ranks_.clear();
    DoubleTest::TearDown();
  }

  struct Rank {
    Rank(int number, std::size_t count) : rank(number) {
      EXPECT_CUDA(cudaSetDevice(rank));
      stream = std::make_unique<Stream>();
      data = std::make_unique<DeviceArray<float>>(count);
    }
    ~Rank() {
      if (communicator != nullptr) {
        EXPECT_NCCL(ncclCommDestroy(communicator));
      }
    }
    void fill(const std::vector<float>& values) const {
      EXPECT_CUDA(cudaMemcpy(*data, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
    int rank;
    ncclComm_t communicator = nullptr;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<DeviceArray<float>> data;
  };

  void start(int ranks) {
    ranks_.clear();
    reset({.devices = ranks});
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>(rank, 12));
    std::vector<ncclComm_t> made(ranks_.size());
    EXPECT_NCCL(ncclCommInitAll(made.data(), ranks, nullptr));
    for (std::size_t rank = 0; rank < made.size(); ++rank) ranks_[rank]->communicator = made[rank];
  }
  // In a group, for every rank.
  template <class Call>
  void together(Call call) {
    EXPECT_NCCL(ncclGroupStart());
    for (const auto& rank : ranks_) EXPECT_NCCL(call(*rank));
    EXPECT_NCCL(ncclGroupEnd());
    for (const auto& rank : ranks_) rank->stream->synchronize();
  }
  void fill(const std::vector<std::vector<float>>& values) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank]->fill(values[rank]);
  }
  std::vector<float> first(std::size_t rank, std::size_t count) {
    auto values = ranks_[rank]->data->values();
    values.resize(count);
    return values;
  }
  static ncclResult_t all_reduce(const Rank& rank, std::size_t count, ncclRedOp_t op = ncclSum) {
    return ncclAllReduce(rank.data->data(), rank.data->data(), count, ncclFloat32, op, rank.communicator,
                         *rank.stream);
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(Nccl, ReducesInPlace) {
  fill({{1, 2, 3, 4}, {10, 20, 30, 40}, {100, 200, 300, 400}});
  together([](const Rank& rank) { return all_reduce(rank, 4); });
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_THAT(first(rank, 4), ElementsAre(111, 222, 333, 444));
  together([](const Rank& rank) { return all_reduce(rank, 4, ncclAvg); });
  EXPECT_THAT(first(1, 4), ElementsAre(111, 222, 333, 444));
  fill({{3, -1}, {2, 5}, {1, 0}});
  together([](const Rank& rank) { return all_reduce(rank, 2, ncclMax); });
  EXPECT_THAT(first(2, 2), ElementsAre(3, 5));
}

TEST_F(Nccl, ScattersGathersBroadcastsAndSendsMessages) {
  fill({{1, 2, 3}, {10, 20, 30}, {100, 200, 300}});
  together([](const Rank& rank) {
    float* data = *rank.data;
    return ncclReduceScatter(data, data + rank.rank, 1, ncclFloat32, ncclSum, rank.communicator,
                             *rank.stream);
  });
  EXPECT_THAT(first(0, 3), ElementsAre(111, 2, 3));
  EXPECT_THAT(first(1, 3), ElementsAre(10, 222, 30));
  together([](const Rank& rank) {
    float* data = *rank.data;
    return ncclAllGather(data + rank.rank, data, 1, ncclFloat32, rank.communicator, *rank.stream);
  });
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_THAT(first(rank, 3), ElementsAre(111, 222, 333));
  fill({{1}, {2}, {3}});
  together([](const Rank& rank) {
    float* data = *rank.data;
    return ncclBroadcast(data, data, 1, ncclFloat32, 2, rank.communicator, *rank.stream);
  });
  EXPECT_THAT(first(0, 1), ElementsAre(3));
  fill({{1}, {2}, {3}});
  together([](const Rank& rank) {
    float* data = *rank.data;
    return ncclReduce(data, data, 1, ncclFloat32, ncclSum, 1, rank.communicator, *rank.stream);
  });
  EXPECT_THAT(first(0, 1), ElementsAre(1));
  EXPECT_THAT(first(1, 1), ElementsAre(6));
  fill({{10, 0}, {20, 0}, {30, 0}});
  together([](const Rank& rank) {  // to the next, from the one before
    float* data = *rank.data;
    EXPECT_NCCL(ncclSend(data, 1, ncclFloat32, (rank.rank + 1) % 3, rank.communicator, *rank.stream));
    return ncclRecv(data + 1, 1, ncclFloat32, (rank.rank + 2) % 3, rank.communicator, *rank.stream);
  });
  EXPECT_THAT(first(0, 2), ElementsAre(10, 30));
  EXPECT_THAT(first(2, 2), ElementsAre(30, 20));
}

TEST_F(Nccl, RoundsHalvesAfterEveryRank) {
  // 1 + 2^-8 + 2^-8 in bfloat16: the first sum falls back to 1, and so does the second.
  const auto upper = [](float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  };
  const float values[] = {1.0F, 0x1p-8F, 0x1p-8F};
  for (const auto& rank : ranks_) {
    const std::uint16_t half = upper(values[rank->rank]);
    EXPECT_CUDA(cudaMemcpy(*rank->data, &half, 2, cudaMemcpyHostToDevice));
  }
  together([](const Rank& rank) {
    return ncclAllReduce(rank.data->data(), rank.data->data(), 1, ncclBfloat16, ncclSum, rank.communicator,
                         *rank.stream);
  });
  std::uint16_t sum = 0;
  EXPECT_CUDA(cudaMemcpy(&sum, *ranks_[1]->data, 2, cudaMemcpyDeviceToHost));
  EXPECT_EQ(sum, upper(1.0F));
}

TEST_F(Nccl, RefusesSeveralRanksOfOneThreadWithoutAGroup) {
  start(2);
  EXPECT_NCCL(all_reduce(*ranks_[0], 1));
  EXPECT_EQ(all_reduce(*ranks_[1], 1), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("one thread calls for ranks 0 and 1 without a group"));
  for (const auto& rank : ranks_) {
    EXPECT_NCCL(ncclCommAbort(rank->communicator));
    rank->communicator = nullptr;
    rank->stream->synchronize();
  }
}

TEST_F(Nccl, HangsForAMissingRankUntilAborted) {
  start(2);
  EXPECT_NCCL(all_reduce(*ranks_[0], 1));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(cudaStreamQuery(*ranks_[0]->stream), cudaErrorNotReady);
  std::thread([&] { EXPECT_NCCL(ncclCommAbort(ranks_[0]->communicator)); }).join();
  ranks_[0]->stream->synchronize();
  EXPECT_EQ(all_reduce(*ranks_[0], 1), ncclInvalidArgument);
  ranks_[0]->communicator = nullptr;
  EXPECT_NCCL(ncclCommAbort(ranks_[1]->communicator));
  ranks_[1]->communicator = nullptr;
}

TEST_F(Nccl, TakesRegistrationsAlongWhenAborted) {
  void* registration = nullptr;
  EXPECT_NCCL(ncclCommRegister(ranks_[0]->communicator, *ranks_[0]->data, 16, &registration));
  EXPECT_NCCL(ncclCommAbort(ranks_[0]->communicator));
  EXPECT_EQ(ncclCommDeregister(ranks_[0]->communicator, registration), ncclInvalidArgument);
  ranks_[0]->communicator = nullptr;
}

TEST_F(Nccl, ReducesFewerElementsThanRanks) {
  fill({{1, 5}, {2, 6}, {3, 7}});
  together([](const Rank& rank) { return all_reduce(rank, 2); });
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_THAT(first(rank, 2), ElementsAre(6, 18));
}

TEST_F(Nccl, HangsRanksOnRequest) {
  hang_nccl_rank(1);
  fill({{1}, {2}, {3}});
  EXPECT_NCCL(ncclGroupStart());
  for (const auto& rank : ranks_) EXPECT_NCCL(all_reduce(*rank, 1));
  EXPECT_NCCL(ncclGroupEnd());
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(cudaStreamQuery(*ranks_[2]->stream), cudaErrorNotReady);
  release_nccl_ranks();
  for (const auto& rank : ranks_) rank->stream->synchronize();
  EXPECT_THAT(first(2, 1), ElementsAre(6));
}

TEST_F(Nccl, ReportsCallsThatDoNotMatch) {
  start(2);
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(all_reduce(*ranks_[0], 3));
  EXPECT_NCCL(all_reduce(*ranks_[1], 4));
  EXPECT_NCCL(ncclGroupEnd());
  ncclResult_t status = ncclSuccess;
  while (status == ncclSuccess) EXPECT_NCCL(ncclCommGetAsyncError(ranks_[0]->communicator, &status));
  EXPECT_EQ(status, ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), testing::AllOf(HasSubstr("rank 0 calls ncclAllReduce of 3"),
                                                        HasSubstr("rank 1 calls ncclAllReduce of 4")));
  for (const auto& rank : ranks_) {
    EXPECT_EQ(cudaStreamQuery(*rank->stream), cudaErrorNotReady);
    EXPECT_NCCL(ncclCommAbort(rank->communicator));
    rank->communicator = nullptr;
    rank->stream->synchronize();
  }
}

TEST_F(Nccl, ChecksBuffersAndStreams) {
  float host = 0;
  const Rank& rank = *ranks_[0];
  EXPECT_EQ(ncclAllReduce(&host, &host, 1, ncclFloat32, ncclSum, rank.communicator, *rank.stream),
            ncclInvalidArgument);
  EXPECT_EQ(all_reduce(rank, 13), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(*ranks_[1]->data, *ranks_[1]->data, 1, ncclFloat32, ncclSum, rank.communicator,
                          *rank.stream),
            ncclInvalidArgument);
  EXPECT_EQ(
      ncclAllReduce(*rank.data, *rank.data, 1, ncclFloat32, ncclSum, rank.communicator, *ranks_[1]->stream),
      ncclInvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST_F(Nccl, IsCapturedAndHeldByTheGraph) {
  start(2);
  fill({{1}, {2}});
  std::vector<cudaGraph_t> graphs(2);
  std::vector<cudaGraphExec_t> execs(2);
  for (const auto& rank : ranks_) {
    EXPECT_CUDA(cudaStreamBeginCapture(*rank->stream, cudaStreamCaptureModeThreadLocal));
  }
  EXPECT_NCCL(ncclGroupStart());
  for (const auto& rank : ranks_) EXPECT_NCCL(all_reduce(*rank, 1));
  EXPECT_NCCL(ncclGroupEnd());
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_CUDA(cudaStreamEndCapture(*ranks_[i]->stream, &graphs[i]));
    EXPECT_CUDA(cudaGraphInstantiate(&execs[i], graphs[i], 0));
    EXPECT_CUDA(cudaGraphDestroy(graphs[i]));
  }
  for (int launch = 0; launch < 3; ++launch) {
    for (std::size_t i = 0; i < 2; ++i) EXPECT_CUDA(cudaGraphLaunch(execs[i], *ranks_[i]->stream));
  }
  for (const auto& rank : ranks_) rank->stream->synchronize();
  EXPECT_THAT(first(0, 1), ElementsAre(12));  // 3, 6, 12
  std::atomic<bool> destroyed{false};
  std::thread ending([&] {
    EXPECT_NCCL(ncclCommDestroy(ranks_[0]->communicator));
    destroyed = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(destroyed);
  for (cudaGraphExec_t exec : execs) EXPECT_CUDA(cudaGraphExecDestroy(exec));
  ending.join();
  ranks_[0]->communicator = nullptr;
}

TEST_F(Nccl, Splits) {
  std::vector<ncclComm_t> children(3, nullptr);
  EXPECT_NCCL(ncclGroupStart());
  for (const auto& rank : ranks_) {  // ranks 2 and 0, in this order; rank 1 stays alone
    EXPECT_NCCL(ncclCommSplit(rank->communicator, rank->rank % 2, -rank->rank,
                              &children[static_cast<std::size_t>(rank->rank)], nullptr));
  }
  EXPECT_NCCL(ncclGroupEnd());
  int value = 0;
  EXPECT_NCCL(ncclCommUserRank(children[2], &value));
  EXPECT_EQ(value, 0);
  EXPECT_NCCL(ncclCommCount(children[0], &value));
  EXPECT_EQ(value, 2);
  EXPECT_NCCL(ncclCommCuDevice(children[0], &value));
  EXPECT_EQ(value, 0);
  fill({{1}, {2}, {4}});
  EXPECT_NCCL(ncclGroupStart());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NCCL(ncclAllReduce(*ranks_[i]->data, *ranks_[i]->data, 1, ncclFloat32, ncclSum, children[i],
                              *ranks_[i]->stream));
  }
  EXPECT_NCCL(ncclGroupEnd());
  for (const auto& rank : ranks_) rank->stream->synchronize();
  EXPECT_THAT(first(0, 1), ElementsAre(5));
  EXPECT_THAT(first(1, 1), ElementsAre(2));
  for (ncclComm_t child : children) EXPECT_NCCL(ncclCommDestroy(child));
}

using NcclInit = DoubleTest;

TEST_F(NcclInit, WaitsForAllRanks) {
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  std::vector<ncclComm_t> made(2, nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      EXPECT_CUDA(cudaSetDevice(rank));
      EXPECT_NCCL(ncclCommInitRank(&made[static_cast<std::size_t>(rank)], 2, id, rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (ncclComm_t communicator : made) EXPECT_NCCL(ncclCommDestroy(communicator));
}

TEST_F(NcclInit, RefusesTwoRanksOnOneDevice) {
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  std::vector<ncclComm_t> made(2, nullptr);
  EXPECT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NCCL(ncclCommInitRank(&made[static_cast<std::size_t>(rank)], 2, id, rank));
  }
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_THAT(last_refusal(), HasSubstr("ranks 0 and 1 are on the same device"));
  const int twice[] = {1, 1};
  EXPECT_EQ(ncclCommInitAll(made.data(), 2, twice), ncclInvalidUsage);
  reset();
}

TEST_F(NcclInit, WithoutBlockingIsInProgressUntilAllHaveComeAndConnectsLate) {
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  std::vector<ncclComm_t> made(2, nullptr);
  ncclResult_t state = ncclSuccess;
  const auto state_of = [&](std::size_t rank) {
    EXPECT_NCCL(ncclCommGetAsyncError(made[rank], &state));
    return state;
  };
  EXPECT_EQ(ncclCommInitRankConfig(&made[0], 2, id, 0, &config), ncclInProgress);
  EXPECT_EQ(state_of(0), ncclInProgress);
  int count = 0;
  EXPECT_EQ(ncclCommCount(made[0], &count), ncclInvalidArgument);
  EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(ncclCommInitRankConfig(&made[1], 2, id, 1, &config), ncclInProgress);
  EXPECT_EQ(state_of(0), ncclSuccess);
  EXPECT_EQ(state_of(1), ncclSuccess);
  {
    const Stream second;
    const DeviceArray<float> b(std::vector<float>{2});
    EXPECT_CUDA(cudaSetDevice(0));
    const Stream first;
    const DeviceArray<float> a(std::vector<float>{1});
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(a, a, 1, ncclFloat32, ncclSum, made[0], first));
    EXPECT_NCCL(ncclAllReduce(b, b, 1, ncclFloat32, ncclSum, made[1], second));
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
    EXPECT_EQ(state_of(0), ncclInProgress);
    EXPECT_EQ(state_of(0), ncclSuccess);
    EXPECT_EQ(state_of(1), ncclInProgress);
    EXPECT_EQ(state_of(1), ncclSuccess);
    first.synchronize();
    second.synchronize();
    EXPECT_THAT(a.values(), ElementsAre(3));
  }
  EXPECT_EQ(ncclCommFinalize(made[0]), ncclInProgress);
  EXPECT_EQ(state_of(0), ncclSuccess);
  for (ncclComm_t communicator : made) EXPECT_NCCL(ncclCommDestroy(communicator));
}

TEST_F(NcclInit, ListsWhatIsLeft) {
  std::vector<ncclComm_t> made(2, nullptr);
  EXPECT_NCCL(ncclCommInitAll(made.data(), 2, nullptr));
  void* memory = nullptr;
  EXPECT_NCCL(ncclMemAlloc(&memory, 64));
  void* registration = nullptr;
  EXPECT_NCCL(ncclCommRegister(made[0], memory, 64, &registration));
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(describe(leaks()),
            "nccl communicator by ncclCommInitAll #1 (rank 0 on device 0)\n"
            "nccl communicator by ncclCommInitAll #1 (rank 1 on device 1)\n"
            "device memory of nccl by ncclMemAlloc #1 (64 bytes on device 0)\n"
            "nccl registration by ncclCommRegister #1 (64 bytes)\n");
  EXPECT_NCCL(ncclCommDeregister(made[0], registration));
  EXPECT_NCCL(ncclMemFree(memory));
  for (ncclComm_t communicator : made) EXPECT_NCCL(ncclCommDestroy(communicator));
}

}  // namespace
}  // namespace cuda_double
