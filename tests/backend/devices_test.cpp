#include "backend/devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/cpu/topology.hpp"
#include "base/error.hpp"
#include "model/zoo.hpp"

namespace {

using namespace dtrain;
using testing::HasSubstr;

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

backend::DeviceInfo gpu(int index, const std::string& name, std::size_t free_memory,
                        const std::string& unusable = "") {
  backend::DeviceInfo device;
  device.index = index;
  device.name = name;
  device.free_memory = free_memory;
  device.unusable = unusable;
  return device;
}

using Choice = config::Inventory (*)(const backend::GpuFindings&);

// Category, words of both lines.
std::string refusal(Choice choose, const backend::GpuFindings& gpus) {
  try {
    return "took " + choose(gpus).device;
  } catch (const Error& error) {
    return fmt::format("{}: {} -> {}", name(error.category()), error.what(), error.advice());
  }
}

TEST(Devices, GpusAreTakenWhereThereAreAny) {
  const backend::GpuFindings two = {
      .present = true, .devices = {gpu(0, "H200", 9000), gpu(1, "H200", 7000)}, .problem = "", .advice = ""};
  for (const Choice choose : {&backend::choose_auto, &backend::choose_cuda}) {
    const auto inventory = choose(two);
    EXPECT_EQ(inventory.device, "cuda");
    EXPECT_EQ(inventory.gpus, 2);
    EXPECT_EQ(inventory.free_memory, 7000U);
    EXPECT_EQ(inventory.device_reason, "found 2 GPUs: H200");
  }
}

TEST(Devices, GpusThatDifferAreSaidToDiffer) {
  const auto inventory = backend::choose_auto(
      {.present = true, .devices = {gpu(0, "L4", 1), gpu(1, "A10", 1)}, .problem = "", .advice = ""});
  EXPECT_THAT(inventory.device_reason, HasSubstr("A10, L4; they differ"));
}

TEST(Devices, AutoTakesTheCpuOnlyWhereThereIsNoGpu) {
  const backend::GpuFindings none;
  EXPECT_EQ(backend::choose_auto(none).device, "cpu");
  const std::string unusable = refusal(
      &backend::choose_auto, {.present = true, .devices = {}, .problem = "no module", .advice = "build it"});
  EXPECT_THAT(unusable, HasSubstr("environment: a GPU is present, but cannot be used: no module"));
  EXPECT_THAT(unusable, HasSubstr("build it; or measure CPU replicas on purpose with --device cpu"));
}

TEST(Devices, CudaNeverFallsBack) {
  const std::string none =
      refusal(&backend::choose_cuda, {.present = false, .devices = {}, .problem = "no driver", .advice = ""});
  EXPECT_THAT(none, HasSubstr("environment: --device cuda: found 0 GPUs: no driver"));
  EXPECT_THAT(none, HasSubstr("--device cpu"));
}

TEST(Devices, HiddenGpusAreSaidToBeHidden) {
  const backend::GpuFindings hidden = {.present = true, .devices = {}, .problem = "none", .advice = ""};
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_THAT(refusal(&backend::choose_cuda, hidden), HasSubstr("CUDA_VISIBLE_DEVICES is empty"));
  EXPECT_THAT(refusal(&backend::choose_auto, hidden), HasSubstr("--device cpu"));
  ::setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  EXPECT_THAT(refusal(&backend::choose_auto, hidden), HasSubstr("CUDA_VISIBLE_DEVICES=7"));
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(Devices, OneThatCannotBeUsedIsNotCounted) {
  const std::string mixed = refusal(
      &backend::choose_auto, {.present = true,
                              .devices = {gpu(0, "T4", 1, "too old"), gpu(1, "L4", 1), gpu(2, "L4", 1)},
                              .problem = "",
                              .advice = ""});
  EXPECT_THAT(mixed, HasSubstr("GPU 0 (T4) cannot be used: too old"));
  EXPECT_THAT(mixed, HasSubstr("CUDA_VISIBLE_DEVICES=1,2"));
  const std::string old =
      refusal(&backend::choose_cuda,
              {.present = true, .devices = {gpu(0, "T4", 1, "too old")}, .problem = "", .advice = ""});
  EXPECT_THAT(old, HasSubstr("--device cpu"));
}

TEST(Devices, UnknownOneListsTheKnown) { EXPECT_THROW(backend::find_devices("gpu0"), Error); }

TEST(Precision, SaysWhatTheCpuCannotDo) {
  const auto& cpu = *backend::backend_for("cpu");
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
  const backend::Backend& cpu_ = *backend::backend_for("cpu");
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

TEST_F(Memory, AReplicaThatIsTooLargeIsRefusedWithTheCallersAdvice) {
  config_.max_batch = 10'000'000;
  try {
    backend::require_memory(cpu_, config_, 1, 200'000'000, std::size_t{16} << 30, [] { return "take less"; });
    FAIL() << "ten million images fit in 200 MB";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::environment);
    EXPECT_THAT(std::string(error.what()), testing::HasSubstr("a replica with 10000000 images needs"));
    EXPECT_THAT(std::string(error.what()), testing::HasSubstr("--memory-limit allows"));
    EXPECT_EQ(std::string(error.advice()), "take less");
  }
}

TEST_F(Memory, FreeMemoryIsSharedByTheReplicas) {
  const std::size_t one = cpu_.estimate_memory(config_);
  const auto none = [] { return std::string(); };
  EXPECT_NO_THROW(backend::require_memory(cpu_, config_, 4, 0, 4 * one, none));
  EXPECT_THROW(backend::require_memory(cpu_, config_, 5, 0, 4 * one, none), Error);
}

TEST(AllowedMemory, IsTheLimitOrTheShareOfWhatIsFree) {
  EXPECT_EQ(backend::allowed_memory(4, 0, 400), 100U);
  EXPECT_EQ(backend::allowed_memory(4, 30, 400), 30U);
  EXPECT_EQ(backend::allowed_memory(4, 300, 400), 100U);
  EXPECT_EQ(backend::allowed_memory(4, 300, 0), 300U);  // nobody knows what is free
  EXPECT_EQ(backend::allowed_memory(4, 0, 0), 0U);
}

}  // namespace
