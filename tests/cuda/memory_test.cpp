#include "backend/cuda/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/cuda_replica.hpp"
#include "backend/make_replica.hpp"
#include "base/error.hpp"
#include "double_machine.hpp"
#include "model/zoo.hpp"

namespace dtrain::backend::cuda {
namespace {

using ::testing::HasSubstr;

class Memory : public dtrain::testing::DoubleMachine {
 protected:
  Memory() : DoubleMachine({.devices = 1, .memory_bytes = 64 * mib}) {}

  static int calls(const std::string& name) {
    const auto counts = cuda_double::calls();
    const auto found = counts.find(name);
    return found == counts.end() ? 0 : found->second;
  }
};

TEST_F(Memory, IsOneAllocationUnlessItGrows) {
  for (const bool growth : {false, true}) {
    cuda_double::reset({.devices = 1, .memory_bytes = 64 * mib});
    const Stream stream = make_stream();
    DeviceMemory memory(0, stream.get(), {.growth = growth}, 3 * mib);
    auto* first = static_cast<std::byte*>(memory.take(mib));
    auto* second = static_cast<std::byte*>(memory.take(100));
    EXPECT_EQ(memory.taken(), mib + DeviceMemory::alignment);
    EXPECT_EQ(calls("cudaMalloc"), growth ? 2 : 1);
    EXPECT_EQ(memory.peak(), growth ? mib + DeviceMemory::alignment : 3 * mib);
    if (!growth) {
      EXPECT_EQ(second - first, static_cast<std::ptrdiff_t>(mib));
    }
    memory.take(3 * mib);  // beyond what was planned
    EXPECT_EQ(calls("cudaMalloc"), growth ? 3 : 2);
  }
}

TEST_F(Memory, AsyncTakesFromAPoolOfItsOwn) {
  const Stream stream = make_stream();
  DeviceMemory memory(0, stream.get(), {.allocator = config::Allocator::async}, 3 * mib);
  EXPECT_EQ(calls("cudaMallocFromPoolAsync"), 0);
  memory.take(mib);
  EXPECT_EQ(calls("cudaMallocFromPoolAsync"), 1);
  EXPECT_EQ(calls("cudaMalloc"), 0);
  EXPECT_GE(memory.peak(), mib);
}

TEST_F(Memory, TheLimitHoldsAndSaysWhatIsLeft) {
  const Stream stream = make_stream();
  DeviceMemory memory(0, stream.get(), {.growth = true, .limit = 5 * mib}, 0);
  memory.take(4 * mib);
  try {
    memory.take(2 * mib);
    FAIL();
  } catch (const OutOfMemory& failure) {
    EXPECT_EQ(failure.asked, 2 * mib);
    EXPECT_EQ(failure.taken, 4 * mib);
    EXPECT_EQ(failure.free, mib);
  }
  memory.take(mib);
}

ReplicaConfig replica_config(const model::Model& model, int batch) {
  ReplicaConfig config;
  config.model = &model;
  config.max_batch = batch;
  config.memory_limit = 48 * mib;
  return config;
}

TEST_F(Memory, AReplicaTakesWhatWasEstimated) {
  const model::Model cnn = model::zoo().at("cnn").value();
  for (const int batch : {3, 64, 150}) {
    ReplicaConfig config = replica_config(cnn, batch);
    config.memory_limit = 0;
    cuda_double::reset({.devices = 1});
    const auto replica = dtrain::testing::make_replica(config);
    const auto estimate = static_cast<double>(estimate_cuda_memory(config));
    EXPECT_NEAR(static_cast<double>(replica->memory().peak) / estimate, 1.0, 0.02) << batch;
    EXPECT_LE(replica->memory().allocated, replica->memory().peak);
  }
}

TEST_F(Memory, OutOfMemorySaysWhatWasAskedWhatIsFreeAndWhatWouldFit) {
  const model::Model cnn = model::zoo().at("cnn").value();
  ReplicaConfig config = replica_config(cnn, 4000);
  int fits = 0;
  try {
    dtrain::testing::make_replica(config);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::environment);
    EXPECT_THAT(error.what(), HasSubstr("GPU 0: out of memory: asked for"));
    EXPECT_THAT(error.what(), HasSubstr("4000 images"));
    ASSERT_EQ(std::sscanf(error.advice().c_str(), "the largest batch that fits is --batch-size %d", &fits), 1)
        << error.advice();
  }
  config.max_batch = fits;
  EXPECT_NE(dtrain::testing::make_replica(config), nullptr);
  config.max_batch = fits + fits / 20 + 1;
  EXPECT_THROW(dtrain::testing::make_replica(config), Error);
}

TEST_F(Memory, ADatasetThatDoesNotFitIsNotHeld) {
  const model::Model mlp = model::zoo().at("mlp").value();
  cuda_double::reset({.devices = 1, .memory_bytes = 64 * mib});
  const auto replica = dtrain::testing::make_replica(replica_config(mlp, 4));
  const auto synthetic = datasets::open_cifar10("synthetic", true, 1).train;
  EXPECT_FALSE(replica->hold_dataset(*synthetic));  // 50,000 images: 154 MB
  EXPECT_EQ(replica->input_format(), InputFormat::bytes);
}

}  // namespace
}  // namespace dtrain::backend::cuda
