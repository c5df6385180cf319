#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/samples.hpp"

namespace dtrain::measure {

// CPU seconds of a set of CPUs since the machine started, from /proc/stat. `busy` is user, nice, system, irq
// and softirq (guests are in user already); `stolen` is what the hypervisor took.
struct MachineTimes {
  double busy = 0.0;
  double stolen = 0.0;
};

// The parsers take the text of the file named; nothing when it is not what they know. Without `cpus` the
// whole machine counts.
std::optional<MachineTimes> parse_machine_times(std::string_view proc_stat, double ticks_per_second,
                                                const std::vector<int>& cpus = {});
// CPU seconds of a process and its threads, from /proc/PID/stat.
std::optional<double> parse_process_seconds(std::string_view proc_pid_stat, double ticks_per_second);
std::optional<std::size_t> parse_peak_bytes(std::string_view proc_self_status);  // VmHWM
// CPU seconds of throttling: throttled_usec (control groups version 2) or throttled_time (version 1, ns).
std::optional<double> parse_throttled_seconds(std::string_view cpu_stat);

// Where cpu.stat of the groups named in /proc/self/cgroup and of all groups above them may lie under `root`:
// any of them may hold the quota. Files that are not there are not meant.
std::vector<std::filesystem::path> throttle_files(std::string_view proc_self_cgroup,
                                                  const std::filesystem::path& root = "/sys/fs/cgroup");

// Most memory the process ever held at a time; 0 where the system does not say.
std::size_t peak_process_bytes();

// Watches the CPUs that this process may use while stretches are measured, begin() and end() around each, and
// remembers the worst of what the devices were found doing.
class NoiseMeter {
 public:
  NoiseMeter();
  // Other processes of this machine whose load is not foreign: those that work on the same job.
  void count_as_own(std::vector<int> processes) { processes_ = std::move(processes); }
  void begin();
  void end();
  // What devices were found doing before or after a stretch.
  void take_in(const std::vector<config::DeviceCondition>& conditions);
  NoiseReading reading() const;  // without calibration_spread
  bool load_known() const { return load_known_; }

 private:
  struct Snapshot {
    MachineTimes machine;
    double own = 0.0;
    double throttled = 0.0;
    double at = 0.0;
  };
  Snapshot take();

  std::vector<std::filesystem::path> throttle_files_;
  std::vector<int> cpus_;
  std::vector<int> processes_;
  double ticks_per_second_;
  bool load_known_ = true;
  Snapshot begin_;
  Snapshot total_;
  std::vector<config::DeviceCondition> devices_;
};

}  // namespace dtrain::measure
