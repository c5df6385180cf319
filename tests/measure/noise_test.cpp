#include "measure/noise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "measure/calibration.hpp"

namespace dtrain::measure {
namespace {

using ::testing::ElementsAre;

TEST(Noise, ReadsBusyAndStolenTime) {
  const auto times = parse_machine_times(
      "cpu  100 20 30 4000 500 6 7 80 9 1\ncpu0 50 10 15 2000 250 3 3 40 4 0\nintr 1\n", 100.0);
  ASSERT_TRUE(times);
  EXPECT_DOUBLE_EQ(times->busy, 1.63);  // user, nice, system, irq, softirq; guests are in user
  EXPECT_DOUBLE_EQ(times->stolen, 0.80);
}

TEST(Noise, CountsOnlyTheCpusAskedFor) {
  const char* text =
      "cpu  111 0 0 9 9 0 0 33 0 0\ncpu0 1 0 0 3 3 0 0 10 0 0\ncpu1 10 0 0 3 3 0 0 20 0 0\n"
      "cpu10 100 0 0 3 3 0 0 3 0 0\nintr 5\n";
  const auto times = parse_machine_times(text, 100.0, {0, 10});
  ASSERT_TRUE(times);
  EXPECT_DOUBLE_EQ(times->busy, 1.01);
  EXPECT_DOUBLE_EQ(times->stolen, 0.13);
  EXPECT_DOUBLE_EQ(parse_machine_times(text, 100.0, {1})->busy, 0.10);
  EXPECT_DOUBLE_EQ(parse_machine_times(text, 100.0)->busy, 1.11);
  EXPECT_FALSE(parse_machine_times(text, 100.0, {7}));
}

TEST(Noise, KnowsWhenProcStatIsNotWhatItKnows) {
  EXPECT_FALSE(parse_machine_times("", 100.0));
  EXPECT_FALSE(parse_machine_times("cpu 1 2 3", 100.0));
  EXPECT_FALSE(parse_machine_times("cpu0 1 2 3 4 5 6 7 8 9 10", 100.0));
  EXPECT_FALSE(parse_machine_times("cpu 1 2 x 4 5 6 7 8 9 10", 100.0));
  EXPECT_FALSE(parse_machine_times("cpu 1 2 -3 4 5 6 7 8 9 10", 100.0));
  EXPECT_FALSE(parse_machine_times("cpu 1 2 3 4 5 6 7 8 9 10", 0.0));
}

TEST(Noise, ReadsThrottlingOfBothVersions) {
  EXPECT_DOUBLE_EQ(*parse_throttled_seconds("usage_usec 5\nnr_throttled 2\nthrottled_usec 1500000\n"), 1.5);
  EXPECT_DOUBLE_EQ(*parse_throttled_seconds("nr_periods 9\nnr_throttled 2\nthrottled_time 2500000000\n"),
                   2.5);
  EXPECT_FALSE(parse_throttled_seconds("usage_usec 5\n"));
  EXPECT_FALSE(parse_throttled_seconds(""));
  EXPECT_FALSE(parse_throttled_seconds("throttled_usec\n"));
}

TEST(Noise, LooksForTheQuotaInTheGroupAndAboveIt) {
  const auto text = [](const std::string& cgroup) {
    std::vector<std::string> paths;
    for (const auto& file : throttle_files(cgroup, "/r")) paths.push_back(file.string());
    return paths;
  };
  EXPECT_THAT(text("0::/a/b\n"),
              ElementsAre("/r/a/b/cpu.stat", "/r/a/cpu.stat", "/r/cpu.stat", "/r/unified/a/b/cpu.stat",
                          "/r/unified/a/cpu.stat", "/r/unified/cpu.stat"));
  EXPECT_THAT(text("5:cpu,cpuacct:/x\n4:memory:/m\n3:cpuset:/s\n"),
              ElementsAre("/r/cpu,cpuacct/x/cpu.stat", "/r/cpu,cpuacct/cpu.stat", "/r/cpu/x/cpu.stat",
                          "/r/cpu/cpu.stat"));
  EXPECT_THAT(text("1:cpu:/\n"), ElementsAre("/r/cpu/cpu.stat"));
  EXPECT_TRUE(text("").empty());
  EXPECT_TRUE(text("nonsense\n\n:\n").empty());
}

TEST(Noise, ReadsPeakMemory) {
  EXPECT_EQ(*parse_peak_bytes("Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t    1234 kB\n"), 1234U * 1024U);
  EXPECT_FALSE(parse_peak_bytes("VmPeak: 1 kB\n"));
  EXPECT_GT(peak_process_bytes(), 1U << 20);
}

TEST(Noise, ReadsTheTimesOfAnotherProcess) {
  EXPECT_DOUBLE_EQ(
      *parse_process_seconds("12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0 20 0 1 0 5 6", 100.0), 4.0);
  EXPECT_FALSE(parse_process_seconds("", 100.0));
  EXPECT_FALSE(parse_process_seconds("12 (name) S 1 2", 100.0));
}

TEST(Noise, WorkOfTheJobsOtherProcessesIsNotForeignLoad) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (std::atomic<bool> forever{true}; forever;) {
    }
  }
  ASSERT_GT(child, 0);
  const auto load = [&](std::vector<int> processes) {
    NoiseMeter meter;
    meter.count_as_own(std::move(processes));
    meter.begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    meter.end();
    return meter.reading().foreign_load;
  };
  const double foreign = load({});
  const double own = load({child});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  // Whatever else this machine does is in both; what the child got of it, in one.
  EXPECT_LT(own, foreign);
}

TEST(Noise, OwnWorkIsNotForeignLoad) {
  NoiseMeter meter;
  meter.begin();
  const double single = time_calibration_kernel();
  meter.end();
  const NoiseReading reading = meter.reading();
  EXPECT_GT(single, 0.0);
  EXPECT_GE(reading.foreign_load, 0.0);
  EXPECT_GE(reading.stolen, 0.0);
  EXPECT_GE(reading.throttled_seconds, 0.0);
}

TEST(Noise, KeepsTheWorstOfEachDevice) {
  NoiseMeter meter;
  config::DeviceCondition first;
  first.device = 1;
  first.clock_mhz = 1900;
  first.highest_clock_mhz = 1980;
  first.celsius = 60;
  first.slowed_by = {"heat"};
  config::DeviceCondition second = first;
  second.clock_mhz = 1500;
  second.celsius = 50;
  second.slowed_by = {"heat", "the power limit"};
  second.other_processes = 2;
  config::DeviceCondition other;
  meter.take_in({first, other});
  meter.take_in({second});
  const auto devices = meter.reading().devices;
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].device, 1);
  EXPECT_EQ(devices[0].clock_mhz, 1500);
  EXPECT_EQ(devices[0].highest_clock_mhz, 1980);
  EXPECT_EQ(devices[0].celsius, 60);
  EXPECT_EQ(devices[0].slowed_by, (std::vector<std::string>{"heat", "the power limit"}));
  EXPECT_EQ(devices[0].other_processes, 2);
  EXPECT_EQ(devices[1].clock_mhz, 0);
}

TEST(Noise, AnUnusedMeterReadsZero) {
  const NoiseReading reading = NoiseMeter().reading();
  EXPECT_EQ(reading.foreign_load, 0.0);
  EXPECT_EQ(reading.stolen, 0.0);
}

TEST(Calibration, TakesTheFastestRepeat) {
  const double one = time_calibration_kernel();
  EXPECT_GT(one, 0.0);
  EXPECT_GT(calibrate(2), 0.0);
  EXPECT_LT(calibrate(5), 3.0 * one);
  EXPECT_GT(calibrate(0), 0.0);
}

TEST(Calibration, AStampCostsLessThanAMicrosecondOrSo) {
  EXPECT_GT(time_stamp(), 0.0);
  EXPECT_LT(time_stamp(), 1e-4);
}

}  // namespace
}  // namespace dtrain::measure
