#include "cli/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/hash.hpp"

namespace dtrain::cli {

namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const bool names_it =
        line.starts_with("model name") || line.starts_with("Hardware") || line.starts_with("cpu\t");
    const auto colon = line.find(": ");
    if (names_it && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

int allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

std::size_t physical_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Memory is rounded: firmware and kernel take a little more or less after an update, and it is the same
// machine.
std::string key_of(const report::Machine& machine) {
  const double gibibytes = static_cast<double>(machine.memory) / (1024.0 * 1024.0 * 1024.0);
  std::string text = fmt::format("{}|{}|{:.0f}", machine.cpu, machine.cores, std::ceil(gibibytes));
  for (const auto& device : machine.devices) text += "|" + device;
  Hash hash;
  hash.add(std::span<const char>(text));
  return hash.hex();
}

}  // namespace

report::Machine describe_machine(const std::vector<backend::DeviceInfo>& devices) {
  report::Machine machine;
  machine.cpu = processor_name();
  machine.cores = allowed_cores();
  machine.memory = physical_memory();
  for (const auto& device : devices) machine.devices.push_back(device.name);
  machine.key = key_of(machine);
  return machine;
}

}  // namespace dtrain::cli
