#include "backend/backend.hpp"

#include <map>
#include <mutex>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cuda_module.hpp"
#include "backend/xla/xla_backend.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::backend {

double PeakFlops::at(config::Precision precision) const {
  switch (precision) {
    case config::Precision::fp32:
      return fp32;
    case config::Precision::tf32:
      return tf32;
    case config::Precision::bf16:
      return bf16;
    case config::Precision::fp16:
      return fp16;
  }
  return 0.0;
}

const Registry<BackendMaker>& backends() {
  static const auto table = [] {
    Registry<BackendMaker> all("backend");
    all.add("cpu", "shares of the processor's cores, computed by oneDNN",
            [](const BackendConfig&) { return cpu::make_cpu_backend(); });
    all.add("cuda", "NVIDIA GPUs, computed by cuDNN and own kernels; a module, loaded when used",
            [](const BackendConfig&) { return make_cuda_module_backend(); });
    all.add("tpu", "TPUs and whatever else a PJRT plugin drives, compiled by XLA",
            [](const BackendConfig& config) { return xla::make_xla_backend(config.pjrt_plugin); });
    return all;
  }();
  return table;
}

std::shared_ptr<const Backend> backend_for(const std::string& name, const BackendConfig& config) {
  static std::mutex mutex;
  // Not taken down when the process ends: what a plugin would need for it may be gone by then.
  static auto& made = *new std::map<std::pair<std::string, std::string>, std::shared_ptr<const Backend>>;
  const BackendMaker make = backends().at(name).value;
  const std::lock_guard lock(mutex);
  auto& backend = made[{name, config.pjrt_plugin}];
  if (!backend) backend = make(config);
  return backend;
}

std::size_t allowed_memory(int replicas, std::size_t limit_per_replica, std::size_t free_memory) {
  const std::size_t share = free_memory / static_cast<std::size_t>(std::max(replicas, 1));
  if (limit_per_replica == 0 || free_memory == 0) return std::max(limit_per_replica, share);
  return std::min(limit_per_replica, share);
}

void require_memory(const Backend& backend, const ReplicaConfig& config, int replicas,
                    std::size_t limit_per_replica, std::size_t free_memory,
                    const std::function<std::string()>& advice) {
  const std::size_t allowed = allowed_memory(replicas, limit_per_replica, free_memory);
  const std::size_t wanted = backend.estimate_memory(config);
  if (allowed == 0 || wanted <= allowed) return;
  throw environment_error(
      fmt::format("a replica with {} images{} needs {}, but {} allows {}",
                  config::share_of(config.max_batch, 0, config.replicas),
                  config.slots > 1 ? fmt::format(" in each of {} micro-batches", config.slots) : "",
                  format_bytes(static_cast<double>(wanted)),
                  allowed == limit_per_replica ? std::string("--memory-limit")
                                               : fmt::format("free memory over {} replicas", replicas),
                  format_bytes(static_cast<double>(allowed))),
      advice());
}

}  // namespace dtrain::backend
