#include "memory.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "entry.hpp"
#include "stream.hpp"

namespace cuda_double {
namespace {

constexpr std::size_t device_alignment = 512;
constexpr std::size_t page = 4096;

void* block(std::size_t alignment, std::size_t bytes) {
  void* address = nullptr;
  return posix_memalign(&address, alignment, bytes) == 0 ? address : nullptr;
}

cudaError_t allocate_pinned(void** address, std::size_t bytes, unsigned flags) {
  constexpr unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if (address == nullptr || (flags & ~known) != 0)
    return refuse(cudaErrorInvalidValue, "unknown flags or no address");
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* start = block(page, bytes);
  if (start == nullptr) return refuse(cudaErrorMemoryAllocation, "the host is out of memory");
  auto* made = machine().make<Allocation>("pinned memory", fmt::format("{} bytes", bytes), Place::pinned, -1,
                                          start, bytes);
  const std::unique_lock lock(machine().memory->mutex);
  machine().memory->live[reinterpret_cast<std::uintptr_t>(start)] = made;
  *address = start;
  return cudaSuccess;
}

Allocation* allocation_at(void* address) {
  const std::shared_lock lock(machine().memory->mutex);
  const auto found = machine().memory->live.find(reinterpret_cast<std::uintptr_t>(address));
  return found == machine().memory->live.end() ? nullptr : found->second;
}

cudaError_t free_host(void* address) {
  if (address == nullptr) return cudaSuccess;
  Allocation* found = allocation_at(address);
  if (found == nullptr || found->place != Place::pinned) {
    return refuse(cudaErrorInvalidValue, "not the start of live pinned memory");
  }
  unmap(*found);
  give_back(*found);
  return cudaSuccess;
}

cudaError_t register_host(void* address, std::size_t bytes, unsigned flags) {
  constexpr unsigned known = cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly;
  if (address == nullptr || bytes == 0 || (flags & ~known) != 0) {
    return refuse(cudaErrorInvalidValue, "no memory or unknown flags");
  }
  auto* made = machine().make<Allocation>("registered memory", fmt::format("{} bytes", bytes),
                                          Place::registered, -1, address, bytes);
  const std::unique_lock lock(machine().memory->mutex);
  auto& live = machine().memory->live;
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const auto after = live.lower_bound(start + bytes);
  if (after != live.begin() && std::prev(after)->first + std::prev(after)->second->bytes > start) {
    made->alive = false;
    return refuse(cudaErrorHostMemoryAlreadyRegistered, "overlaps memory that is registered or allocated");
  }
  live[start] = made;
  return cudaSuccess;
}

cudaError_t unregister_host(void* address) {
  Allocation* found = allocation_at(address);
  if (found == nullptr || found->place != Place::registered) {
    return refuse(cudaErrorHostMemoryNotRegistered, "not the start of registered memory");
  }
  unmap(*found);
  found->alive = false;
  return cudaSuccess;
}

cudaError_t attributes_of(cudaPointerAttributes* attributes, const void* address) {
  if (attributes == nullptr) return refuse(cudaErrorInvalidValue, "no result");
  const Region region = region_of(address, 1);
  *attributes = {};
  attributes->device = region.device;
  attributes->type = cudaMemoryTypeUnregistered;
  if (region.place == Place::pageable) return cudaSuccess;
  attributes->type = region.place == Place::device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->devicePointer = const_cast<void*>(address);
  if (region.place != Place::device) attributes->hostPointer = const_cast<void*>(address);
  return cudaSuccess;
}

}  // namespace

Allocation::~Allocation() {
  if (alive && place != Place::registered) std::free(address);
}

std::uint64_t Memory::held_by_pools(int device, const CUmemPoolHandle_st* except) const {
  std::uint64_t bytes = 0;
  for (const auto* pool : pools) {
    if (pool != except && pool->device == device) bytes += pool->reserved;
  }
  return bytes;
}

void fill_with_garbage(void* address, std::size_t bytes) {
  constexpr std::size_t enough = std::size_t{64} << 20;  // more would make the host commit it
  std::memset(address, 0xff, std::min(bytes, enough));
}

Region region_of(const void* address, std::size_t bytes) {
  const Memory& memory = *machine().memory;
  const std::shared_lock lock(memory.mutex);
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  auto after = memory.live.upper_bound(start);
  if (after == memory.live.begin()) return {};
  const Allocation& found = *std::prev(after)->second;
  const std::size_t offset = start - std::prev(after)->first;
  if (offset >= found.bytes) return {};
  return {found.place, found.device, offset + bytes <= found.bytes, offset, &found};
}

cudaError_t require_device_memory(const void* address, std::size_t bytes, int device, const char* what) {
  const Region region = region_of(address, bytes);
  if (region.place != Place::device) {
    return refuse(cudaErrorInvalidValue, fmt::format("{} {} is no live device memory", what, address));
  }
  if (!region.whole) {
    return refuse(cudaErrorInvalidValue,
                  fmt::format("{} of {} bytes reaches {} bytes beyond its allocation", what, bytes,
                              region.offset + bytes - region.allocation->bytes));
  }
  if (region.device == device) return cudaSuccess;
  const auto& peers = machine().devices[static_cast<std::size_t>(device)]->peers;
  if (std::find(peers.begin(), peers.end(), region.device) != peers.end()) return cudaSuccess;
  return refuse(cudaErrorInvalidValue,
                fmt::format("{} lies on device {}, the work runs on device {}", what, region.device, device));
}

cudaError_t allocate_device_memory(void** address, std::size_t bytes, const char* what, bool by_nccl) {
  if (address == nullptr) return refuse(cudaErrorInvalidValue, "no place for the address");
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int device = this_thread().device;
  Memory& memory = *machine().memory;
  void* start = nullptr;
  {
    const std::unique_lock lock(memory.mutex);
    const std::uint64_t taken = memory.allocated[device] + memory.held_by_pools(device);
    if (bytes > machine().setup.memory_bytes || taken + bytes > machine().setup.memory_bytes) {
      return refuse(cudaErrorMemoryAllocation, fmt::format("{} of {} bytes are taken, {} asked for", taken,
                                                           machine().setup.memory_bytes, bytes));
    }
    start = block(by_nccl ? page : device_alignment, bytes);
    if (start == nullptr) return refuse(cudaErrorMemoryAllocation, "the host is out of memory");
    memory.allocated[device] += bytes;
  }
  fill_with_garbage(start, bytes);
  auto* made = machine().make<Allocation>(what, fmt::format("{} bytes on device {}", bytes, device),
                                          Place::device, device, start, bytes);
  made->by_nccl = by_nccl;
  const std::unique_lock lock(memory.mutex);
  memory.live[reinterpret_cast<std::uintptr_t>(start)] = made;
  *address = start;
  return cudaSuccess;
}

void unmap(Allocation& allocation) {
  Memory& memory = *machine().memory;
  const std::unique_lock lock(memory.mutex);
  memory.live.erase(reinterpret_cast<std::uintptr_t>(allocation.address));
  if (allocation.place != Place::device) return;
  if (allocation.pool != nullptr) {
    allocation.pool->used -= allocation.bytes;
    memory.pools_may_hold_more.store(true, std::memory_order_relaxed);
  } else {
    memory.allocated[allocation.device] -= allocation.bytes;
  }
}

void give_back(Allocation& allocation) {
  allocation.alive.store(false, std::memory_order_relaxed);
  std::free(allocation.address);
}

cudaError_t free_device_memory(void* address, bool by_nccl) {
  if (address == nullptr) return cudaSuccess;
  Allocation* found = allocation_at(address);
  if (found == nullptr || found->place != Place::device || found->by_nccl != by_nccl) {
    return refuse(cudaErrorInvalidValue, fmt::format("{} is not the start of live device memory", address));
  }
  unmap(*found);
  give_back(*found);
  return cudaSuccess;
}

}  // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return cuda_call<"cudaMalloc", unsafe>(
      [&] { return allocate_device_memory(address, bytes, "device memory", false); });
}

cudaError_t cudaFree(void* address) {
  return cuda_call<"cudaFree", always | unsafe>([&] { return free_device_memory(address, false); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return cuda_call<"cudaMemGetInfo">([&] {
    if (free == nullptr || total == nullptr) return refuse(cudaErrorInvalidValue, "no result");
    const int device = this_thread().device;
    Memory& memory = *machine().memory;
    const std::unique_lock lock(memory.mutex);
    *total = machine().setup.memory_bytes;
    *free = *total - memory.held_by_pools(device) - memory.allocated[device];
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned flags) {
  return cuda_call<"cudaHostAlloc", unsafe>([&] { return allocate_pinned(address, bytes, flags); });
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return cuda_call<"cudaMallocHost", unsafe>(
      [&] { return allocate_pinned(address, bytes, cudaHostAllocDefault); });
}

cudaError_t cudaFreeHost(void* address) {
  return cuda_call<"cudaFreeHost", always | unsafe>([&] { return free_host(address); });
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned flags) {
  return cuda_call<"cudaHostRegister", unsafe>([&] { return register_host(address, bytes, flags); });
}

cudaError_t cudaHostUnregister(void* address) {
  return cuda_call<"cudaHostUnregister", always | unsafe>([&] { return unregister_host(address); });
}

cudaError_t cudaHostGetDevicePointer(void** device_address, void* address, unsigned flags) {
  return cuda_call<"cudaHostGetDevicePointer">([&] {
    const Place place = region_of(address, 1).place;
    if (device_address == nullptr || flags != 0 || (place != Place::pinned && place != Place::registered)) {
      return refuse(cudaErrorInvalidValue, "not pinned memory");
    }
    *device_address = address;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return cuda_call<"cudaPointerGetAttributes">([&] { return attributes_of(attributes, address); });
}
