// Every call of CUDA and cuDNN that training makes is made to fail: the error is told, or the failure did not
// matter, and nothing is leaked.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/check.hpp"
#include "backend/make_replica.hpp"
#include "base/error.hpp"
#include "cuda_double/double.hpp"
#include "model/zoo.hpp"
#include "steps.hpp"

namespace dtrain::backend::cuda {
namespace {

using ::testing::HasSubstr;

// Makes a replica, takes a recorded step, evaluates; returns the losses.
std::vector<double> train_a_little(config::Allocator allocator) {
  static const model::Model model = model::resnet9(8);
  static const dtrain::testing::Records records(4);
  ReplicaConfig config;
  config.model = &model;
  config.max_batch = 2;
  config.precision = config::Precision::bf16;
  config.allocator = allocator;
  config.check_buckets = true;
  config.deterministic = true;  // or plans, and with them the last bits, would depend on timing
  const auto replica = dtrain::testing::make_replica(config);
  replica->import_weights(model::initial_weights(model, 3));
  dtrain::testing::Stepper stepper(*replica);
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) {
    losses.push_back(stepper.step(records.part(2 * (step % 2), 2), 1e-3).loss_sum);
    replica->prefetch(records.part(2 * ((step + 1) % 2), 2));
  }
  replica->forget_prefetched();
  losses.push_back(replica->evaluate(records.part(0, 2)).loss_sum);
  return losses;
}

void inject(const std::string& call, int nth) {
  if (call.starts_with("cudnn")) {
    cuda_double::fail(call, nth, CUDNN_STATUS_EXECUTION_FAILED);
  } else {
    cuda_double::fail(call, nth, cudaErrorUnknown);
  }
}

class Failures : public ::testing::TestWithParam<config::Allocator> {};

TEST_P(Failures, OfAnyCallAreToldAndLeakNothing) {
  cuda_double::reset({.devices = 1});
  const std::vector<double> expected = train_a_little(GetParam());
  ASSERT_EQ(cuda_double::describe(cuda_double::leaks()), "");
  const auto calls = cuda_double::calls();
  EXPECT_GT(calls.size(), 25U);
  int told = 0;
  for (const auto& [call, count] : calls) {
    for (const int nth : {1, (count + 1) / 2, count}) {
      cuda_double::reset({.devices = 1});
      inject(call, nth);
      try {
        EXPECT_EQ(train_a_little(GetParam()), expected) << call << " #" << nth;
      } catch (const Error& error) {
        ++told;
        EXPECT_NE(std::string(error.what()), "") << call << " #" << nth;
      }
      EXPECT_EQ(cuda_double::describe(cuda_double::leaks()), "") << call << " #" << nth;
    }
  }
  EXPECT_GT(told, static_cast<int>(calls.size()));  // most calls matter
}

INSTANTIATE_TEST_SUITE_P(Allocators, Failures,
                         ::testing::Values(config::Allocator::standard, config::Allocator::async),
                         [](const auto& tested) { return config::name(tested.param); });

TEST(Checks, NameTheCallTheCodeTheTextAndTheDevice) {
  cuda_double::reset();
  DTRAIN_CUDA(cudaSetDevice(1));
  cuda_double::fail("cudaDeviceSynchronize", 1, cudaErrorIllegalAddress);
  try {
    DTRAIN_CUDA(cudaDeviceSynchronize());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::run);
    EXPECT_THAT(error.what(), HasSubstr("cudaDeviceSynchronize() on GPU 1"));
    EXPECT_THAT(error.what(), HasSubstr("cudaErrorIllegalAddress"));
    EXPECT_THAT(error.what(), HasSubstr("700"));
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Checks, WithoutADriverItIsTheEnvironment) {
  cuda_double::reset({.driver = false});
  try {
    DTRAIN_CUDA(cudaSetDevice(0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::environment);
    EXPECT_THAT(error.advice(), HasSubstr("--device cpu"));
  }
  cuda_double::reset();
}

TEST(Hangs, EndByTheDeadlineAndNameTheGpu) {
  cuda_double::reset({.devices = 1});
  const model::Model model = model::zoo().at("mlp").value();
  const dtrain::testing::Records records(2);
  ReplicaConfig config;
  config.model = &model;
  config.max_batch = 2;
  const auto replica = dtrain::testing::make_replica(config);
  cuda_double::slow("kernel execution", std::chrono::milliseconds(150));
  dtrain::testing::NoSink sink;
  replica->forward(0, records.part(0, 2));
  replica->backward(0, 1.0F, true, true, sink);
  try {
    replica->synchronize(Deadline::in(Seconds(0.05)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("GPU 0 has not finished a step within 0.05 s"));
  }
}

}  // namespace
}  // namespace dtrain::backend::cuda
