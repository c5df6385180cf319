#include "backend/cuda/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/cuda_replica.hpp"
#include "backend/make_replica.hpp"
#include "base/error.hpp"
#include "model/zoo.hpp"
#include "precisions.hpp"

namespace {

using namespace dtrain;
using ::testing::HasSubstr;

std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t all = 0;
  DTRAIN_CUDA(cudaMemGetInfo(&free, &all));
  return free;
}

backend::ReplicaConfig config_of(const model::Model& model, int batch) {
  backend::ReplicaConfig config;
  config.model = &model;
  config.max_batch = batch;
  return config;
}

// Four times what there is.
TEST(Memory, TooLargeABatchIsRefusedWithTheOneThatFits) {
  const model::Model cnn = model::zoo().at("cnn").value();
  const std::size_t thousand = backend::cuda::estimate_cuda_memory(config_of(cnn, 1000));
  const int batch = static_cast<int>(4 * free_memory() / thousand) * 1000;
  try {
    dtrain::testing::make_replica(config_of(cnn, batch));
    FAIL() << "a replica with " << batch << " images was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::environment);
    EXPECT_THAT(error.what(), HasSubstr("GPU 0: out of memory"));
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(batch) + " images"));
    EXPECT_THAT(error.advice(), HasSubstr("--batch-size"));
  }
  // The GPU is as usable as before.
  const dtrain::testing::Images images(4);
  const auto small = dtrain::testing::make_replica(config_of(cnn, 4));
  small->import_weights(model::initial_weights(cnn, 3));
  EXPECT_GT(small->evaluate(images.batch()).loss_sum, 0.0);
}

TEST(Memory, EveryAllocatorTrains) {
  const model::Model cnn = model::zoo().at("cnn").value();
  const dtrain::testing::Images images(8);
  dtrain::testing::NoSink sink;
  std::vector<double> losses;
  for (const auto allocator : {config::Allocator::standard, config::Allocator::async}) {
    for (const bool growth : {false, true}) {
      auto config = config_of(cnn, 8);
      config.allocator = allocator;
      config.memory_growth = growth;
      const auto replica = dtrain::testing::make_replica(config);
      replica->import_weights(model::initial_weights(cnn, 3));
      replica->forward(0, images.batch());
      replica->backward(0, 1.0F, true, true, sink);
      losses.push_back(replica->result(0).loss_sum);
      EXPECT_GE(replica->memory().peak, replica->memory().allocated / 2);
    }
  }
  EXPECT_GT(losses.front(), 0.0);
  EXPECT_THAT(losses, ::testing::Each(losses.front()));
}

}  // namespace
