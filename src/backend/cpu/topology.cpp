#include "backend/cpu/topology.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <fstream>
#include <memory>
#include <sstream>

namespace dtrain::backend::cpu {

namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The folder of this process's control group for a controller ("" in version 2), or empty.
std::string cgroup_folder(const std::string& controller) {
  std::istringstream lines(read_text("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controller.empty() && controllers.empty()) return "/sys/fs/cgroup" + (path == "/" ? "" : path);
    if (!controller.empty() && controllers.find(controller) != std::string::npos) {
      return "/sys/fs/cgroup/" + controller + (path == "/" ? "" : path);
    }
  }
  return controller.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
}

double number_in(const std::string& path, double missing) {
  std::istringstream text(read_text(path));
  double value = 0.0;
  return text >> value ? value : missing;
}

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

}  // namespace

std::vector<int> usable_cores() {
  const std::vector<int> allowed = allowed_processors();
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return allowed;
  const std::unique_ptr<hwloc_topology, DestroyTopology> topology(raw);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw) != 0) return allowed;

  std::vector<int> cores;
  const int count = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_CORE);
  for (int i = 0; i < count; ++i) {
    const hwloc_obj_t core = hwloc_get_obj_by_type(raw, HWLOC_OBJ_CORE, static_cast<unsigned>(i));
    for (const int processor : allowed) {
      if (hwloc_bitmap_isset(core->cpuset, static_cast<unsigned>(processor)) != 0) {
        cores.push_back(processor);
        break;
      }
    }
  }
  return cores.empty() ? allowed : cores;
}

double parse_cpu_max(const std::string& text) {
  std::istringstream words(text);
  double quota = 0.0;
  double period = 0.0;
  return words >> quota >> period && period > 0.0 ? quota / period : 0.0;
}

double cpu_quota() {
  const double version2 = parse_cpu_max(read_text(cgroup_folder("") + "/cpu.max"));
  if (version2 > 0.0) return version2;
  const std::string folder = cgroup_folder("cpu");
  const double quota = number_in(folder + "/cpu.cfs_quota_us", -1.0);
  const double period = number_in(folder + "/cpu.cfs_period_us", 0.0);
  return quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

std::size_t parse_available_memory(const std::string& meminfo) {
  const std::string key = "MemAvailable:";
  const auto at = meminfo.find(key);
  if (at == std::string::npos) return 0;
  std::istringstream text(meminfo.substr(at + key.size()));
  std::size_t kilobytes = 0;
  text >> kilobytes;
  return kilobytes * 1024;
}

std::size_t available_memory() {
  const std::size_t system = parse_available_memory(read_text("/proc/meminfo"));
  const std::string folder = cgroup_folder("");
  const double limit = number_in(folder + "/memory.max", 0.0);
  if (limit <= 0.0) return system;
  const double used = number_in(folder + "/memory.current", 0.0);
  return std::min(system, static_cast<std::size_t>(std::max(limit - used, 0.0)));
}

}  // namespace dtrain::backend::cpu
