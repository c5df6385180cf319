#include "measure/noise.hpp"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <set>

#include "base/text.hpp"
#include "base/units.hpp"

namespace dtrain::measure {

namespace fs = std::filesystem;

namespace {

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (auto& word : split(line, ' ')) {
    if (!word.empty()) words.push_back(std::move(word));
  }
  return words;
}

template <class Number>
std::optional<Number> to_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The number after a word that begins a line, such as "throttled_usec 12" or "VmHWM:  12 kB".
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  for (auto& line : split(text, '\n')) {
    std::replace(line.begin(), line.end(), '\t', ' ');
    const auto words = words_of(line);
    if (words.size() >= 2 && words[0] == key) return to_number<std::uint64_t>(words[1]);
  }
  return std::nullopt;
}

double process_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void add_with_parents(std::vector<fs::path>& files, const fs::path& hierarchy, std::string_view group) {
  fs::path inside = fs::path(group).relative_path();
  while (true) {
    files.push_back(hierarchy / inside / "cpu.stat");
    if (inside.empty()) return;
    inside = inside.parent_path();
  }
}

std::optional<MachineTimes> parse_cpu_line(const std::vector<std::string>& words, double ticks_per_second) {
  enum Column { user = 1, nice, system, idle, iowait, irq, softirq, steal, columns };
  if (words.size() < columns) return std::nullopt;
  double ticks[columns] = {};
  for (int i = user; i < columns; ++i) {
    const auto number = to_number<std::uint64_t>(words[i]);
    if (!number) return std::nullopt;
    ticks[i] = static_cast<double>(*number);
  }
  const double busy = ticks[user] + ticks[nice] + ticks[system] + ticks[irq] + ticks[softirq];
  return MachineTimes{.busy = busy / ticks_per_second, .stolen = ticks[steal] / ticks_per_second};
}

// CPUs that the calling thread may run on; none where the system does not say.
std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void keep_worst(config::DeviceCondition& worst, const config::DeviceCondition& seen) {
  if (seen.clock_mhz > 0.0 && (worst.clock_mhz <= 0.0 || seen.clock_mhz < worst.clock_mhz)) {
    worst.clock_mhz = seen.clock_mhz;
  }
  worst.highest_clock_mhz = std::max(worst.highest_clock_mhz, seen.highest_clock_mhz);
  worst.celsius = std::max(worst.celsius, seen.celsius);
  worst.watts = std::max(worst.watts, seen.watts);
  worst.watts_limit = std::max(worst.watts_limit, seen.watts_limit);
  worst.other_processes = std::max(worst.other_processes, seen.other_processes);
  worst.other_bytes = std::max(worst.other_bytes, seen.other_bytes);
  for (const auto& reason : seen.slowed_by) {
    if (std::ranges::find(worst.slowed_by, reason) == worst.slowed_by.end())
      worst.slowed_by.push_back(reason);
  }
}

}  // namespace

std::optional<MachineTimes> parse_machine_times(std::string_view proc_stat, double ticks_per_second,
                                                const std::vector<int>& cpus) {
  if (ticks_per_second <= 0.0) return std::nullopt;
  MachineTimes sum;
  std::size_t found = 0;
  for (const auto& line : split(proc_stat, '\n')) {
    if (!line.starts_with("cpu")) break;
    const auto words = words_of(line);
    const bool counts =
        cpus.empty() ? words[0] == "cpu" : std::any_of(cpus.begin(), cpus.end(), [&](int cpu) {
          return words[0] == fmt::format("cpu{}", cpu);
        });
    if (!counts) continue;
    const auto times = parse_cpu_line(words, ticks_per_second);
    if (!times) return std::nullopt;
    sum.busy += times->busy;
    sum.stolen += times->stolen;
    ++found;
  }
  if (found == 0) return std::nullopt;
  return sum;
}

std::optional<double> parse_process_seconds(std::string_view proc_pid_stat, double ticks_per_second) {
  // The second field is the program's name, in brackets, with anything in it.
  const auto name_end = proc_pid_stat.rfind(')');
  if (name_end == std::string_view::npos || ticks_per_second <= 0.0) return std::nullopt;
  constexpr std::size_t user = 11;  // fields after the name
  constexpr std::size_t system = 12;
  const auto words = words_of(proc_pid_stat.substr(name_end + 1));
  if (words.size() <= system) return std::nullopt;
  const auto user_ticks = to_number<std::uint64_t>(words[user]);
  const auto system_ticks = to_number<std::uint64_t>(words[system]);
  if (!user_ticks || !system_ticks) return std::nullopt;
  return static_cast<double>(*user_ticks + *system_ticks) / ticks_per_second;
}

std::optional<std::size_t> parse_peak_bytes(std::string_view proc_self_status) {
  const auto kibibytes = number_after(proc_self_status, "VmHWM:");
  if (!kibibytes) return std::nullopt;
  return *kibibytes * kib;
}

std::optional<double> parse_throttled_seconds(std::string_view cpu_stat) {
  if (const auto microseconds = number_after(cpu_stat, "throttled_usec")) {
    return static_cast<double>(*microseconds) * 1e-6;
  }
  if (const auto nanoseconds = number_after(cpu_stat, "throttled_time")) {
    return static_cast<double>(*nanoseconds) * 1e-9;
  }
  return std::nullopt;
}

std::vector<fs::path> throttle_files(std::string_view proc_self_cgroup, const fs::path& root) {
  std::vector<fs::path> files;
  for (const auto& line : split(proc_self_cgroup, '\n')) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = std::string_view(line).substr(second + 1);
    const auto names = split(controllers, ',');
    if (controllers.empty()) {
      add_with_parents(files, root, group);
      add_with_parents(files, root / "unified", group);
    } else if (std::find(names.begin(), names.end(), "cpu") != names.end()) {
      add_with_parents(files, root / controllers, group);
      if (controllers != "cpu") add_with_parents(files, root / "cpu", group);
    }
  }
  return files;
}

std::size_t peak_process_bytes() { return parse_peak_bytes(read_text("/proc/self/status")).value_or(0); }

NoiseMeter::NoiseMeter()
    : cpus_(allowed_cpus()), ticks_per_second_(static_cast<double>(::sysconf(_SC_CLK_TCK))) {
  std::set<fs::path> seen;  // one hierarchy often has two names
  for (const auto& file : throttle_files(read_text("/proc/self/cgroup"))) {
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    if (!error && seen.insert(real).second) throttle_files_.push_back(real);
  }
}

NoiseMeter::Snapshot NoiseMeter::take() {
  Snapshot now;
  const auto machine = parse_machine_times(read_text("/proc/stat"), ticks_per_second_, cpus_);
  if (machine) now.machine = *machine;
  load_known_ = load_known_ && machine.has_value();
  for (const auto& file : throttle_files_) {
    now.throttled += parse_throttled_seconds(read_text(file)).value_or(0.0);
  }
  now.own = process_cpu_seconds();
  for (const int process : processes_) {
    const auto text = read_text(fmt::format("/proc/{}/stat", process));
    now.own += parse_process_seconds(text, ticks_per_second_).value_or(0.0);
  }
  now.at = seconds(Clock::now().time_since_epoch());
  return now;
}

void NoiseMeter::begin() { begin_ = take(); }

void NoiseMeter::end() {
  const Snapshot now = take();
  total_.machine.busy += now.machine.busy - begin_.machine.busy;
  total_.machine.stolen += now.machine.stolen - begin_.machine.stolen;
  total_.own += now.own - begin_.own;
  total_.throttled += now.throttled - begin_.throttled;
  total_.at += now.at - begin_.at;
}

void NoiseMeter::take_in(const std::vector<config::DeviceCondition>& conditions) {
  for (const auto& condition : conditions) {
    const auto known = std::ranges::find(devices_, condition.device, &config::DeviceCondition::device);
    if (known == devices_.end()) {
      devices_.push_back(condition);
    } else {
      keep_worst(*known, condition);
    }
  }
}

NoiseReading NoiseMeter::reading() const {
  NoiseReading reading;
  reading.devices = devices_;
  reading.throttled_seconds = std::max(0.0, total_.throttled);
  if (!load_known_ || total_.at <= 0.0) return reading;
  // Ticks are coarser than the process's own clock, so that the difference can come out a little below zero.
  reading.foreign_load = std::max(0.0, (total_.machine.busy - total_.own) / total_.at);
  reading.stolen = std::max(0.0, total_.machine.stolen / total_.at);
  return reading;
}

}  // namespace dtrain::measure
