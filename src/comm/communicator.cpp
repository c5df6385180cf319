#include "comm/communicator.hpp"

#include "backend/cuda_module.hpp"
#include "comm/shared_memory/communicator.hpp"

namespace dtrain::comm {

backend::Range shard_of(std::size_t size, int rank, int ranks) {
  constexpr std::size_t line = 16;
  const std::size_t lines = (size + line - 1) / line;
  const auto bound = [&](int r) {
    return std::min(size, lines * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks) * line);
  };
  return {bound(rank), bound(rank + 1) - bound(rank)};
}

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

std::string choose_communicator(const std::string& asked, const std::string& device, bool share_devices) {
  const bool cores = device == "cpu";
  if (asked == "auto") return cores ? for_cores : share_devices ? for_shared_gpus : for_gpus;
  const std::string name = local_communicators().at(asked).name;
  if (cores != (name == for_cores)) {
    throw usage_error(fmt::format("--comm {} carries gradients between {}, and the replicas are on {}", name,
                                  cores ? "GPUs" : "CPU replicas", cores ? "CPU cores" : "GPUs"),
                      fmt::format("leave --comm out, or use --comm {}", cores ? for_cores : for_gpus));
  }
  if (name == for_gpus && share_devices) {
    throw environment_error("--comm nccl takes one replica a GPU, and here several share one",
                            "use --comm cuda_local (or leave --comm out), or as many GPUs as replicas");
  }
  return name;
}

}  // namespace dtrain::comm
