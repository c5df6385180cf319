#include "backend/cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include "backend/cuda/check.hpp"
#include "backend/cuda/cuda_replica.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/nvml.hpp"
#include "base/error.hpp"

namespace dtrain::backend::cuda {

namespace {

std::string runtime_version() {
  int version = 0;
  DTRAIN_CUDA(cudaRuntimeGetVersion(&version));
  return version_text(version);
}

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string nccl_version() {
  int version = 0;
  DTRAIN_CUDA(ncclGetVersion(&version));
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

class CudaBackend final : public Backend {
 public:
  std::string name() const override { return "cuda"; }
  std::vector<DeviceInfo> devices() const override { return read_devices(nvml_.get()); }

  std::vector<std::string> libraries() const override {
    return {"CUDA runtime " + runtime_version(), "cuDNN " + cudnn_version(), "NCCL " + nccl_version()};
  }

  std::string driver() const override {
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return {};
    const std::string own = nvml_ ? nvml_->driver_version() : std::string();
    return fmt::format("{}{}made for CUDA {}", own, own.empty() ? "" : ", ", version_text(version));
  }

  std::vector<DeviceCondition> conditions() const override {
    std::vector<DeviceCondition> conditions;
    int count = 0;
    if (!nvml_ || cudaGetDeviceCount(&count) != cudaSuccess) return conditions;
    for (int device = 0; device < count; ++device) {
      conditions.push_back(nvml_->condition(device, bus_id(device)));
    }
    return conditions;
  }

  // Every GPU that is served at all has tensor cores for all of them.
  std::vector<std::string> check_precision(config::Precision precision) const override {
    for (const auto& device : devices()) {
      if (device.unusable.empty()) continue;
      throw environment_error(
          fmt::format("--precision {}: GPU {} ({}) cannot be used: {}", config::name(precision), device.index,
                      device.name, device.unusable),
          "leave it out with CUDA_VISIBLE_DEVICES, or use --device cpu");
    }
    return {};
  }

  std::size_t estimate_memory(const ReplicaConfig& config) const override {
    return estimate_cuda_memory(config);
  }

  std::unique_ptr<Replica> make_replica(const ReplicaConfig& config) const override {
    return make_cuda_replica(config);
  }

 private:
  std::unique_ptr<const Nvml> nvml_ = Nvml::open();
};

}  // namespace

std::shared_ptr<const Backend> make_cuda_backend() { return std::make_shared<CudaBackend>(); }

}  // namespace dtrain::backend::cuda
