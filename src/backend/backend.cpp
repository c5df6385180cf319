#include "backend/backend.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/topology.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::backend {

namespace {

// A driver without its device file, or the other way round, is still a GPU that somebody expects to be used.
bool nvidia_gpu_present() {
  return std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/proc/driver/nvidia/version");
}

config::Inventory cpu_inventory(std::string reason) {
  config::Inventory inventory;
  inventory.device = "cpu";
  inventory.device_reason = std::move(reason);
  inventory.cores = cpu::usable_cores();
  inventory.cpu_quota = cpu::cpu_quota();
  inventory.free_memory = cpu::available_memory();
  return inventory;
}

config::Inventory find_auto() {
  if (nvidia_gpu_present()) {
    throw environment_error("a GPU is present, but this build has no CUDA backend to use it with",
                            "measure CPU replicas on purpose with --device cpu");
  }
  return cpu_inventory("no GPU found: CPU replicas");
}

config::Inventory find_cpu() { return cpu_inventory("asked for with --device cpu"); }

config::Inventory find_cuda() {
  throw environment_error(
      nvidia_gpu_present() ? "--device cuda: this build has no CUDA backend" : "--device cuda: found 0 GPUs",
      "use --device cpu to measure CPU replicas");
}

using Finder = config::Inventory (*)();

const Registry<Finder>& device_choices() {
  static const auto table = [] {
    Registry<Finder> choices("device");
    choices.add("auto", "GPUs where there are any, else CPU replicas", &find_auto);
    choices.add("cpu", "CPU replicas", &find_cpu);
    choices.add("cuda", "GPUs only: never falls back", &find_cuda);
    return choices;
  }();
  return table;
}

}  // namespace

const Registry<std::shared_ptr<const Backend>>& backends() {
  static const auto table = [] {
    Registry<std::shared_ptr<const Backend>> all("backend");
    all.add("cpu", "shares of the processor's cores, computed by oneDNN", cpu::make_cpu_backend());
    return all;
  }();
  return table;
}

std::vector<std::string> device_names() { return device_choices().names(); }

config::Inventory find_devices(const std::string& device) { return device_choices().at(device).value(); }

void require_memory(const Backend& backend, const ReplicaConfig& config, int replicas,
                    std::size_t limit_per_replica, std::size_t free_memory) {
  const std::size_t share = free_memory / static_cast<std::size_t>(std::max(replicas, 1));
  const bool limited = limit_per_replica > 0 && limit_per_replica < share;
  const std::size_t allowed = limited ? limit_per_replica : share;
  const std::size_t wanted = backend.estimate_memory(config);
  if (allowed == 0 || wanted <= allowed) return;

  ReplicaConfig smaller = config;
  int fits = 0;
  for (int low = 1, high = config.max_batch; low <= high;) {
    smaller.max_batch = low + (high - low) / 2;
    if (backend.estimate_memory(smaller) <= allowed) {
      fits = smaller.max_batch;
      low = smaller.max_batch + 1;
    } else {
      high = smaller.max_batch - 1;
    }
  }
  throw environment_error(fmt::format("a replica with {} images needs {}, but {} allows {}", config.max_batch,
                                      format_bytes(static_cast<double>(wanted)),
                                      limited ? std::string("--memory-limit")
                                              : fmt::format("free memory over {} replicas", replicas),
                                      format_bytes(static_cast<double>(allowed))),
                          fits > 0 ? fmt::format("the largest batch that fits is --batch-size {}", fits)
                                   : "not even one image fits: free memory, or raise --memory-limit");
}

}  // namespace dtrain::backend
