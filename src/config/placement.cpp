#include "config/placement.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace dtrain::config {

namespace {

int cores_needed(const Options& options, int replicas) {
  return static_cast<int>(std::min<std::int64_t>(
      static_cast<std::int64_t>(options.threads_per_replica) * replicas, std::numeric_limits<int>::max()));
}

void place_on_cores(RunPlan& run, const Options& options, const Inventory& inventory) {
  const int needed = cores_needed(options, run.replicas);
  const std::string each = options.threads_per_replica > 1
                               ? fmt::format(" of {} threads", options.threads_per_replica)
                               : std::string();
  if (static_cast<std::size_t>(needed) > inventory.cores.size()) {
    run.simulated = true;
    run.simulated_reason = fmt::format("{} replicas{} share {} core{}", run.replicas, each,
                                       inventory.cores.size(), inventory.cores.size() == 1 ? "" : "s");
    return;
  }
  if (needed > usable_cores(inventory)) {
    run.simulated = true;
    run.simulated_reason = fmt::format(
        "{} replica{}{} need {} core{}, but the control group's CPU quota is {:.3g}", run.replicas,
        run.replicas == 1 ? "" : "s", each, needed, needed == 1 ? "" : "s", inventory.cpu_quota);
    return;
  }
  auto next = inventory.cores.begin();
  for (int rank = 0; rank < run.replicas; ++rank) {
    run.cores.emplace_back(next, next + options.threads_per_replica);
    next += options.threads_per_replica;
  }
}

// Of the places that a worker has, the one for each rank; more ranks than places begin again.
template <class Places>
std::vector<int> take_places(const RunPlan& run, const Inventory& inventory, const Places& places,
                             int width) {
  std::vector<int> taken;
  int next = 0;
  for (int rank = 0; rank < run.replicas; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (rank == 0 || run.workers[r] != run.workers[r - 1]) next = 0;
    const auto& all = places(inventory.workers[static_cast<std::size_t>(run.workers[r])]);
    for (int i = 0; i < width; ++i) {
      taken.push_back(all.empty() ? -1 : all[static_cast<std::size_t>(next++) % all.size()]);
    }
  }
  return taken;
}

// Whether two ranks of one host took the same place.
bool shared_places(const RunPlan& run, const Inventory& inventory, const std::vector<int>& taken, int width) {
  std::set<std::pair<std::string, int>> places;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const int worker = run.workers[i / static_cast<std::size_t>(width)];
    const std::string& host = inventory.workers[static_cast<std::size_t>(worker)].host;
    if (!places.emplace(host, taken[i]).second) return true;
  }
  return false;
}

void place_on_workers(RunPlan& run, const Options& options, const Inventory& inventory) {
  const bool cores = inventory.device == "cpu";
  const int width = cores ? options.threads_per_replica : 1;
  const auto taken = take_places(
      run, inventory, [&](const WorkerInventory& w) -> const auto& { return cores ? w.cores : w.gpus; },
      width);
  if (shared_places(run, inventory, taken, width)) {
    run.simulated = true;
    run.simulated_reason = fmt::format("{} replicas on {} workers share {}", run.replicas,
                                       run.workers.back() + 1, cores ? "cores" : "GPUs");
  }
  if (!cores) {
    run.devices = taken;
  } else if (!run.simulated) {
    for (auto next = taken.begin(); next != taken.end(); next += width)
      run.cores.emplace_back(next, next + width);
  }
}

}  // namespace

double usable_cores(const Inventory& inventory) {
  const auto cores = static_cast<double>(inventory.cores.size());
  return inventory.cpu_quota > 0.0 ? std::min(cores, inventory.cpu_quota) : cores;
}

const char* unit(const Inventory& inventory) { return inventory.device == "tpu" ? "device" : "GPU"; }

void deal_to_workers(RunPlan& run, const Inventory& inventory, int largest) {
  const int workers = static_cast<int>(std::ssize(inventory.workers));
  const int each = (largest + workers - 1) / workers;
  for (int rank = 0; rank < run.replicas; ++rank) run.workers.push_back(rank / each);
}

void place(RunPlan& run, const Options& options, const Inventory& inventory) {
  if (!run.workers.empty()) return place_on_workers(run, options, inventory);
  if (inventory.device == "cpu") {
    return place_on_cores(run, options, inventory);
  }
  for (int rank = 0; rank < run.replicas; ++rank) run.devices.push_back(rank % inventory.gpus);
  if (run.replicas > inventory.gpus) {
    run.simulated = true;
    run.simulated_reason = fmt::format("{} replicas share {} {}{}", run.replicas, inventory.gpus,
                                       unit(inventory), inventory.gpus == 1 ? "" : "s");
  }
}

}  // namespace dtrain::config
