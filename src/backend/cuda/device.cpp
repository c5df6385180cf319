#include "backend/cuda/device.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/peak.hpp"
#include "backend/cuda/stream.hpp"
#include "base/error.hpp"

namespace dtrain::backend::cuda {

namespace {

constexpr int oldest_capability = 80;  // what the device kernels are compiled for, and what has bf16 and tf32

int attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  DTRAIN_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

// A context on a GPU takes time, and memory that others may want: the driver is asked first.
std::size_t free_memory(int device, const Nvml* nvml) {
  if (nvml != nullptr) {
    if (const std::size_t free = nvml->free_memory(bus_id(device)); free > 0) return free;
  }
  const OnDevice current(device);
  std::size_t free = 0;
  std::size_t total = 0;
  DTRAIN_CUDA(cudaMemGetInfo(&free, &total));
  return free;
}

std::string why_unusable(int device, int capability) {
  if (capability < oldest_capability) {
    return fmt::format("it is of compute capability {}.{}, and 8.0 (Ampere) is the oldest served",
                       capability / 10, capability % 10);
  }
  if (attribute(device, cudaDevAttrComputeMode) == cudaComputeModeProhibited) {
    return "its compute mode is Prohibited (nvidia-smi -c 0 changes that)";
  }
  return {};
}

DeviceInfo describe(int device, const Nvml* nvml) {
  cudaDeviceProp properties = {};
  DTRAIN_CUDA(cudaGetDeviceProperties(&properties, device));
  const int capability = 10 * properties.major + properties.minor;
  DeviceInfo info;
  info.index = device;
  info.name = properties.name;
  info.architecture = fmt::format("sm_{}", capability);
  info.peak = peak_flops(capability, properties.multiProcessorCount,
                         1e3 * attribute(device, cudaDevAttrClockRate), info.name);
  info.bytes_per_second = memory_bandwidth(1e3 * attribute(device, cudaDevAttrMemoryClockRate),
                                           attribute(device, cudaDevAttrGlobalMemoryBusWidth));
  info.memory = properties.totalGlobalMem;
  info.unusable = why_unusable(device, capability);
  if (info.unusable.empty()) info.free_memory = std::min(free_memory(device, nvml), info.memory);
  return info;
}

// Codes 35, 34 and 100 of cudaGetDeviceCount: with no driver, an old one, a stand-in for one, or no GPU.
Error no_devices(cudaError_t status) {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const std::string told = fmt::format("{}: {} ({})", cudaGetErrorName(status), cudaGetErrorString(status),
                                       static_cast<int>(status));
  if (driver == 0) {
    return environment_error(fmt::format("NVIDIA's driver is not installed or not running ({})", told),
                             "install the driver (docs/cuda.md)");
  }
  if (driver < runtime && status == cudaErrorInsufficientDriver) {
    return environment_error(
        fmt::format("NVIDIA's driver is too old: it is made for CUDA {}, this build for {} ({})",
                    version_text(driver), version_text(runtime), told),
        fmt::format("install a newer driver, or build dtrain with a toolkit of CUDA {}",
                    version_text(driver)));
  }
  return environment_error(fmt::format("the driver shows no GPU ({})", told),
                           "look at `nvidia-smi -L` and at CUDA_VISIBLE_DEVICES");
}

}  // namespace

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::vector<DeviceInfo> read_devices(const Nvml* nvml) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    throw no_devices(status == cudaSuccess ? cudaErrorNoDevice : status);
  }
  std::vector<DeviceInfo> devices;
  for (int device = 0; device < count; ++device) devices.push_back(describe(device, nvml));
  return devices;
}

std::string bus_id(int device) {
  char text[32] = "";
  DTRAIN_CUDA(cudaDeviceGetPCIBusId(text, sizeof(text), device));
  return text;
}

}  // namespace dtrain::backend::cuda
