#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "entry.hpp"
#include "machine.hpp"

namespace cuda_double {
namespace {

constexpr int multiprocessors = 132;
constexpr int threads_a_multiprocessor = 2048;
constexpr int registers = 65536;
constexpr int shared_bytes_a_block = 48 << 10;
constexpr int shared_bytes_a_block_opt_in = 227 << 10;
constexpr int shared_bytes_a_multiprocessor = 228 << 10;
constexpr int cache_bytes = 60 << 20;
constexpr int bus_bits = 6144;
constexpr int clock_khz = 1980000;
constexpr int memory_clock_khz = 3201000;

bool is_device(int device) { return device >= 0 && device < machine().setup.devices; }

int bus_number(int device) { return 0x1b + 0x10 * device; }

cudaDeviceProp properties_of(int device) {
  const Setup& setup = machine().setup;
  cudaDeviceProp all{};
  std::snprintf(all.name, sizeof all.name, "NVIDIA H200");
  std::memset(all.uuid.bytes, 0xd0 + device, sizeof all.uuid.bytes);
  all.totalGlobalMem = setup.memory_bytes;
  all.sharedMemPerBlock = shared_bytes_a_block;
  all.sharedMemPerBlockOptin = shared_bytes_a_block_opt_in;
  all.sharedMemPerMultiprocessor = shared_bytes_a_multiprocessor;
  all.reservedSharedMemPerBlock = 1 << 10;
  all.regsPerBlock = registers;
  all.regsPerMultiprocessor = registers;
  all.warpSize = 32;
  all.memPitch = 0x7fffffff;
  all.maxThreadsPerBlock = 1024;
  all.maxThreadsDim[0] = all.maxThreadsDim[1] = 1024;
  all.maxThreadsDim[2] = 64;
  all.maxGridSize[0] = 0x7fffffff;
  all.maxGridSize[1] = all.maxGridSize[2] = 65535;
  all.totalConstMem = 64 << 10;
  all.major = setup.compute_major;
  all.minor = setup.compute_minor;
  all.textureAlignment = 512;
  all.texturePitchAlignment = 32;
  all.multiProcessorCount = multiprocessors;
  all.canMapHostMemory = 1;
  all.concurrentKernels = 1;
  all.ECCEnabled = 1;
  all.pciBusID = bus_number(device);
  all.asyncEngineCount = 3;
  all.unifiedAddressing = 1;
  all.memoryBusWidth = bus_bits;
  all.l2CacheSize = cache_bytes;
  all.maxThreadsPerMultiProcessor = threads_a_multiprocessor;
  all.streamPrioritiesSupported = 1;
  all.managedMemory = 1;
  all.computePreemptionSupported = 1;
  all.canUseHostPointerForRegisteredMem = 1;
  all.cooperativeLaunch = 1;
  all.maxBlocksPerMultiProcessor = 32;
  all.hostRegisterSupported = 1;
  all.memoryPoolsSupported = 1;
  all.clusterLaunch = 1;
  return all;
}

cudaError_t attribute_of(int* value, cudaDeviceAttr attribute, int device) {
  const cudaDeviceProp all = properties_of(device);
  const auto is = [&](int number) { return *value = number, cudaSuccess; };
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return is(all.maxThreadsPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return is(shared_bytes_a_block);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return is(shared_bytes_a_block_opt_in);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return is(shared_bytes_a_multiprocessor);
    case cudaDevAttrMaxRegistersPerBlock:
      return is(registers);
    case cudaDevAttrWarpSize:
      return is(all.warpSize);
    case cudaDevAttrMultiProcessorCount:
      return is(multiprocessors);
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return is(threads_a_multiprocessor);
    case cudaDevAttrComputeCapabilityMajor:
      return is(all.major);
    case cudaDevAttrComputeCapabilityMinor:
      return is(all.minor);
    case cudaDevAttrClockRate:
      return is(clock_khz);
    case cudaDevAttrMemoryClockRate:
      return is(memory_clock_khz);
    case cudaDevAttrGlobalMemoryBusWidth:
      return is(bus_bits);
    case cudaDevAttrL2CacheSize:
      return is(cache_bytes);
    case cudaDevAttrPciBusId:
      return is(all.pciBusID);
    case cudaDevAttrPciDeviceId:
      return is(all.pciDeviceID);
    case cudaDevAttrPciDomainId:
      return is(all.pciDomainID);
    case cudaDevAttrIntegrated:
      return is(0);
    case cudaDevAttrEccEnabled:
      return is(1);
    case cudaDevAttrComputeMode:
      return is(cudaComputeModeDefault);
    case cudaDevAttrConcurrentKernels:
      return is(1);
    case cudaDevAttrAsyncEngineCount:
      return is(all.asyncEngineCount);
    case cudaDevAttrUnifiedAddressing:
      return is(1);
    case cudaDevAttrStreamPrioritiesSupported:
      return is(1);
    case cudaDevAttrCooperativeLaunch:
      return is(1);
    case cudaDevAttrMemoryPoolsSupported:
      return is(1);
    default:
      return refuse(cudaErrorInvalidValue,
                    fmt::format("the double does not know device attribute {}", static_cast<int>(attribute)));
  }
}

cudaError_t use_peer(int peer, bool on) {
  const int device = this_thread().device;
  if (!is_device(peer) || peer == device) return refuse(cudaErrorInvalidDevice, "no other device");
  auto& peers = machine().devices[static_cast<std::size_t>(device)]->peers;
  const auto found = std::find(peers.begin(), peers.end(), peer);
  if (on == (found != peers.end())) {
    return on ? refuse(cudaErrorPeerAccessAlreadyEnabled, "this device may use that memory already")
              : refuse(cudaErrorPeerAccessNotEnabled, "this device may not use that memory anyway");
  }
  if (on) {
    peers.push_back(peer);
  } else {
    peers.erase(found);
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t status = cuda_call<"cudaGetDeviceCount", independent>([&] {
    *count = machine().setup.devices;
    return cudaSuccess;
  });
  if (status != cudaSuccess && count != nullptr) *count = 0;
  return status;
}

cudaError_t cudaSetDevice(int device) {
  return cuda_call<"cudaSetDevice", independent>([&] {
    if (!is_device(device))
      return refuse(cudaErrorInvalidDevice, fmt::format("there is no device {}", device));
    this_thread().device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return cuda_call<"cudaGetDevice", independent>([&] {
    if (device == nullptr) return refuse(cudaErrorInvalidValue, "no result");
    *device = this_thread().device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return cuda_call<"cudaGetDeviceProperties", independent>([&] {
    if (properties == nullptr) return refuse(cudaErrorInvalidValue, "no result");
    if (!is_device(device))
      return refuse(cudaErrorInvalidDevice, fmt::format("there is no device {}", device));
    *properties = properties_of(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return cuda_call<"cudaDeviceGetAttribute", independent>([&] {
    if (value == nullptr) return refuse(cudaErrorInvalidValue, "no result");
    if (!is_device(device))
      return refuse(cudaErrorInvalidDevice, fmt::format("there is no device {}", device));
    return attribute_of(value, attribute, device);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return cuda_call<"cudaDeviceGetPCIBusId", independent>([&] {
    if (!is_device(device))
      return refuse(cudaErrorInvalidDevice, fmt::format("there is no device {}", device));
    if (id == nullptr || length < 13) return refuse(cudaErrorInvalidValue, "no room for the name");
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0",
                  static_cast<unsigned>(bus_number(device)));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return cuda_call<"cudaDeviceCanAccessPeer", independent>([&] {
    if (can == nullptr) return refuse(cudaErrorInvalidValue, "no result");
    if (!is_device(device) || !is_device(peer)) return refuse(cudaErrorInvalidDevice, "no such device");
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return cuda_call<"cudaDeviceEnablePeerAccess">([&] {
    return flags == 0 ? use_peer(peer, true) : refuse(cudaErrorInvalidValue, "flags have to be 0");
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return cuda_call<"cudaDeviceDisablePeerAccess">([&] { return use_peer(peer, false); });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return cuda_call<"cudaRuntimeGetVersion", needs_nothing>(
      [&] { return *version = CUDART_VERSION, cudaSuccess; });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return cuda_call<"cudaDriverGetVersion", needs_nothing>([&] {
    *version = machine().setup.driver ? CUDART_VERSION : 0;
    return cudaSuccess;
  });
}
