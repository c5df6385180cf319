#include <gtest/gtest.h>

#include "backend/backend.hpp"
#include "backend/cpu/topology.hpp"
#include "base/error.hpp"
#include "model/zoo.hpp"

namespace {

using namespace dtrain;

TEST(Topology, ReadsQuotasAndMemory) {
  using namespace backend::cpu;
  EXPECT_EQ(parse_cpu_max("max 100000\n"), 0.0);
  EXPECT_DOUBLE_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max(""), 0.0);
  EXPECT_EQ(parse_available_memory("MemTotal: 9 kB\nMemAvailable:   1024 kB\n"), 1024U * 1024);
  EXPECT_EQ(parse_available_memory("nothing"), 0U);
}

TEST(Devices, CpuHasCoresAndMemory) {
  const auto inventory = backend::find_devices("cpu");
  EXPECT_EQ(inventory.device, "cpu");
  EXPECT_FALSE(inventory.cores.empty());
  EXPECT_GT(inventory.free_memory, 0U);
}

TEST(Devices, CudaNeverFallsBack) {
  try {
    backend::find_devices("cuda");
    FAIL() << "a GPU was promised";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::environment);
    EXPECT_NE(error.advice().find("--device cpu"), std::string::npos);
  }
}

TEST(Devices, UnknownOneListsTheKnown) { EXPECT_THROW(backend::find_devices("gpu0"), Error); }

TEST(Precision, SaysWhatTheCpuCannotDo) {
  const auto& cpu = *backend::backends().at("cpu").value;
  EXPECT_TRUE(cpu.check_precision(config::Precision::fp32).empty());
  EXPECT_EQ(cpu.check_precision(config::Precision::bf16).size(), 1U);
  const auto category = [&](config::Precision precision) {
    try {
      cpu.check_precision(precision);
    } catch (const Error& error) {
      return error.category();
    }
    return ErrorCategory::run;
  };
  EXPECT_EQ(category(config::Precision::tf32), ErrorCategory::usage);
  EXPECT_EQ(category(config::Precision::fp16), ErrorCategory::environment);
}

class Memory : public testing::Test {
 protected:
  Memory() {
    config_.model = &cnn_;
    config_.max_batch = 64;
  }
  const backend::Backend& cpu_ = *backend::backends().at("cpu").value;
  model::Model cnn_ = model::zoo().at("cnn").value();
  backend::ReplicaConfig config_;
};

TEST_F(Memory, EstimateIsWhatAReplicaTakes) {
  for (const char* name : {"mlp", "cnn", "resnet9"}) {
    const model::Model model = model::zoo().at(name).value();
    config_.model = &model;
    config_.max_batch = 16;
    const auto estimate = static_cast<double>(cpu_.estimate_memory(config_));
    const auto taken = static_cast<double>(cpu_.make_replica(config_)->memory().allocated);
    EXPECT_NEAR(taken / estimate, 1.0, 0.15) << name;
  }
}

TEST_F(Memory, TooLargeABatchNamesTheLargestThatFits) {
  config_.max_batch = 10'000'000;
  try {
    backend::require_memory(cpu_, config_, 1, 200'000'000, std::size_t{16} << 30);
    FAIL() << "ten million images fit in 200 MB";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::environment);
    const std::string advice = error.advice();
    const auto at = advice.find("--batch-size ");
    ASSERT_NE(at, std::string::npos);
    config_.max_batch = std::stoi(advice.substr(at + 13));
    EXPECT_NO_THROW(backend::require_memory(cpu_, config_, 1, 200'000'000, std::size_t{16} << 30));
    config_.max_batch += 1;
    EXPECT_THROW(backend::require_memory(cpu_, config_, 1, 200'000'000, std::size_t{16} << 30), Error);
  }
}

TEST_F(Memory, FreeMemoryIsSharedByTheReplicas) {
  const std::size_t one = cpu_.estimate_memory(config_);
  EXPECT_NO_THROW(backend::require_memory(cpu_, config_, 4, 0, 4 * one));
  EXPECT_THROW(backend::require_memory(cpu_, config_, 5, 0, 4 * one), Error);
}

}  // namespace
