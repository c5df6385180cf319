#include "comm/communicator.hpp"

#include "backend/cuda_module.hpp"
#include "comm/exchange.hpp"
#include "comm/mpi/exchange.hpp"
#include "comm/shared_memory/communicator.hpp"

namespace dtrain::comm {

namespace {

constexpr const char* for_cores = "shared_memory";
constexpr const char* for_gpus = "nccl";
constexpr const char* for_shared_gpus = "cuda_local";

LocalGroupMaker in_module(const char* name) {
  if (const LocalGroupMaker maker = backend::require_cuda_module().find_communicator(name)) return maker;
  throw environment_error(fmt::format("--comm {}: the CUDA module of this build does not have it", name),
                          "build dtrain again where NCCL is (docs/cuda.md)");
}

std::unique_ptr<LocalGroup> make_nccl_group(const LocalGroupConfig& config) {
  return in_module(for_gpus)(config);
}

std::unique_ptr<LocalGroup> make_cuda_local_group(const LocalGroupConfig& config) {
  return in_module(for_shared_gpus)(config);
}

}  // namespace

const Registry<LocalGroupMaker>& local_communicators() {
  static const Registry<LocalGroupMaker> registry = [] {
    Registry<LocalGroupMaker> table("communicator");
    table.add(for_cores, "CPU replicas: threads of one process reduce in each other's memory",
              make_shared_memory_group);
    table.add(for_gpus, "GPUs: NVIDIA's collectives, one replica a GPU", &make_nccl_group);
    table.add(for_shared_gpus, "GPUs: kernels reduce in each other's memory; replicas may share a GPU",
              &make_cuda_local_group);
    return table;
  }();
  return registry;
}

const Registry<CommunicatorKind>& communicators() {
  static const Registry<CommunicatorKind> registry = [] {
    Registry<CommunicatorKind> table("communicator");
    const auto kind = [](const std::string& name) {
      return CommunicatorKind{
          .on_gpus = name != for_cores, .in_process = true, .between_workers = name == for_gpus};
    };
    for (const auto& entry : local_communicators().entries()) {
      table.add(entry.name, entry.summary, kind(entry.name));
    }
    for (const auto& entry : exchanges().entries()) {
      table.add(entry.name, entry.summary, {.on_gpus = false, .in_process = false, .between_workers = true});
    }
    return table;
  }();
  return registry;
}

namespace {

std::string choose_automatically(const CommunicatorChoice& choice) {
  if (choice.device != "cpu") return choice.share_devices ? for_shared_gpus : for_gpus;
  if (!choice.spans_workers) return for_cores;
  return choice.started_by_mpi && mpi_module().table != nullptr ? "mpi" : "gloo";
}

void require_device(const std::string& name, const CommunicatorKind& kind, const CommunicatorChoice& choice) {
  const bool cores = choice.device == "cpu";
  if (cores != kind.on_gpus) return;
  throw usage_error(fmt::format("--comm {} carries gradients between {}, and the replicas are on {}", name,
                                cores ? "GPUs" : "CPU replicas", cores ? "CPU cores" : "GPUs"),
                    fmt::format("leave --comm out, or use --comm {}", cores ? for_cores : for_gpus));
}

void require_reach(const std::string& name, const CommunicatorKind& kind, const CommunicatorChoice& choice) {
  if (choice.spans_workers && !kind.between_workers) {
    throw usage_error(
        fmt::format("--comm {} carries gradients inside one process, and there are several workers", name),
        fmt::format("leave --comm out, or use --comm {}", choice.device == "cpu" ? "gloo" : for_gpus));
  }
  if (!choice.spans_workers && !kind.in_process) {
    throw usage_error(
        fmt::format("--comm {} carries gradients between workers, and there is one process", name),
        "leave --comm out, or start several workers, for instance with `dtrain launch`");
  }
}

}  // namespace

std::string choose_communicator(const CommunicatorChoice& choice) {
  if (choice.asked == "auto") return choose_automatically(choice);
  const auto& [name, summary, kind] = communicators().at(choice.asked);
  require_device(name, kind, choice);
  require_reach(name, kind, choice);
  if (name == for_gpus && choice.share_devices) {
    throw environment_error("--comm nccl takes one replica a GPU, and here several share one",
                            "use --comm cuda_local (or leave --comm out), or as many GPUs as replicas");
  }
  return name;
}

std::string choose_communicator(const std::string& asked, const std::string& device, bool share_devices) {
  return choose_communicator({.asked = asked, .device = device, .share_devices = share_devices});
}

}  // namespace dtrain::comm
