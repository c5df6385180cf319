#include "backend/xla/cpu_share.hpp"

#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/error.hpp"

namespace dtrain::backend::xla {

namespace {

cpu_set_t set_of(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  return set;
}

std::set<pid_t> threads() {
  std::set<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    found.insert(std::stoi(entry.path().filename().string()));
  }
  return found;
}

bool may_leave(pid_t thread, const cpu_set_t& allowed) {
  cpu_set_t own;
  CPU_ZERO(&own);
  if (::sched_getaffinity(thread, sizeof(own), &own) != 0) return false;  // it has ended
  cpu_set_t both;
  CPU_OR(&both, &own, &allowed);
  return CPU_EQUAL(&both, &allowed) == 0;
}

[[noreturn]] void refuse(const std::string& who) {
  throw environment_error(
      fmt::format("{} bound to the cores of its devices: N of them would not be N times the hardware", who),
      "use another PJRT plugin for the processor (docs/tpu.md), or --device cpu");
}

}  // namespace

void make_on_cores(const std::vector<int>& cores, const std::function<void()>& make) {
  const cpu_set_t allowed = set_of(cores);
  if (::sched_setaffinity(0, sizeof(allowed), &allowed) != 0) refuse("this thread cannot be");
  const std::set<pid_t> before = threads();
  make();
  for (const pid_t thread : threads()) {
    if (!before.contains(thread) && may_leave(thread, allowed)) refuse("a thread of the plugin is not");
  }
}

}  // namespace dtrain::backend::xla
