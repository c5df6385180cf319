#include "backend/cuda/nvml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace {

using dtrain::backend::cuda::Nvml;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* bus_id = "00000000:65:00.0";

class FakeNvml : public testing::Test {
 protected:
  ~FakeNvml() override {
    for (const auto& name : set_) ::unsetenv(name.c_str());
  }

  void given(const std::string& name, const std::string& value) {
    set_.push_back("FAKE_NVML_" + name);
    ::setenv(set_.back().c_str(), value.c_str(), 1);
  }
  static std::unique_ptr<const Nvml> open() {
    return Nvml::open((std::filesystem::path(FAKE_MODULES) / "libfake_nvml.so").string());
  }

 private:
  std::vector<std::string> set_;
};

TEST_F(FakeNvml, TellsWhatTheDeviceDoes) {
  const auto nvml = open();
  ASSERT_TRUE(nvml);
  EXPECT_EQ(nvml->driver_version(), "580.95.05");
  const auto condition = nvml->condition(3, bus_id);
  EXPECT_EQ(condition.device, 3);
  EXPECT_EQ(condition.clock_mhz, 1980);
  EXPECT_EQ(condition.highest_clock_mhz, 1980);
  EXPECT_EQ(condition.celsius, 41);
  EXPECT_DOUBLE_EQ(condition.watts, 120.5);
  EXPECT_DOUBLE_EQ(condition.watts_limit, 700.0);
  EXPECT_THAT(condition.slowed_by, IsEmpty()) << "resting is no slowdown";
  EXPECT_EQ(condition.other_processes, 0);
}

TEST_F(FakeNvml, NamesWhatHoldsTheClockDown) {
  given("REASONS", "0x24");
  given("CLOCK", "1200");
  const auto condition = open()->condition(0, bus_id);
  EXPECT_EQ(condition.clock_mhz, 1200);
  EXPECT_THAT(condition.slowed_by, ElementsAre("the power limit", "heat (software limit)"));
}

TEST_F(FakeNvml, ClocksThatSomebodySetAreNoSlowdown) {
  given("REASONS", "0x102");
  EXPECT_THAT(open()->condition(0, bus_id).slowed_by, IsEmpty());
}

TEST_F(FakeNvml, CountsTheOthersOnTheDevice) {
  given("FIRST_PID", std::to_string(::getpid()));
  given("PROCESSES", "3");
  const auto condition = open()->condition(0, bus_id);
  EXPECT_EQ(condition.other_processes, 2);
  EXPECT_EQ(condition.other_bytes, 2'000'000U);
}

TEST_F(FakeNvml, MoreProcessesThanTheFirstListHolds) {
  given("FIRST_PID", std::to_string(::getpid()));
  given("PROCESSES", "40");
  EXPECT_EQ(open()->condition(0, bus_id).other_processes, 39);
}

TEST_F(FakeNvml, WhereThisProcessHasAnotherNumberOneOfThemIsIt) {
  given("FIRST_PID", "999999");
  given("PROCESSES", "2");
  const auto condition = open()->condition(0, bus_id);
  EXPECT_EQ(condition.other_processes, 1);
  EXPECT_EQ(condition.other_bytes, 0U);
}

TEST_F(FakeNvml, TellsFreeMemory) {
  given("FREE", "5000000");
  EXPECT_EQ(open()->free_memory(bus_id), 5'000'000U);
  EXPECT_EQ(open()->free_memory("00000000:01:00.0"), 0U);
}

TEST_F(FakeNvml, WhatIsNotToldIsZero) {
  given("POWER", "0");
  given("CLOCK", "0");
  const auto condition = open()->condition(0, bus_id);
  EXPECT_EQ(condition.watts, 0.0);
  EXPECT_EQ(condition.clock_mhz, 0.0);
  EXPECT_EQ(open()->condition(0, "00000000:01:00.0").highest_clock_mhz, 0.0);
}

TEST_F(FakeNvml, ThereIsNoneWithoutLibraryOrDriver) {
  EXPECT_EQ(Nvml::open("libno-such-library.so.1"), nullptr);
  given("NO_DRIVER", "1");
  EXPECT_EQ(open(), nullptr);
}

}  // namespace
