#include "backend/cpu/team.hpp"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>

#include "base/error.hpp"

namespace dtrain::backend::cpu {

namespace {

bool pin_this_thread(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

}  // namespace

Team::Team(int threads, const std::vector<int>& cores) : threads_(threads) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  if (cores.empty()) return;
  std::atomic<int> refused{-1};
#pragma omp parallel num_threads(threads)
  {
    const int core = cores[static_cast<std::size_t>(omp_get_thread_num()) % cores.size()];
    if (!pin_this_thread(core)) refused = core;
  }
  if (refused >= 0) {
    throw environment_error(fmt::format("cannot pin a replica's thread to core {}", refused.load()),
                            "the process may not use that core: check taskset or the control group's cpuset");
  }
}

void Team::run_parts(std::size_t count, std::size_t grain,
                     const std::function<void(std::size_t, std::size_t)>& work) const {
  const std::size_t grains = (count + grain - 1) / grain;
  const auto parts = static_cast<std::size_t>(threads_);
#pragma omp parallel num_threads(threads_)
  {
    const auto part = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t begin = std::min(count, grains * part / parts * grain);
    const std::size_t end = std::min(count, grains * (part + 1) / parts * grain);
    if (begin < end) work(begin, end);
  }
}

}  // namespace dtrain::backend::cpu
