#include <fmt/format.h>

#include <cstdlib>

#include "capture.hpp"
#include "entry.hpp"
#include "memory.hpp"
#include "stream.hpp"

CUmemPoolHandle_st::CUmemPoolHandle_st(int on, bool default_one)
    : Object("memory pool", fmt::format("on device {}", on)), device(on), is_default(default_one) {
  owned_by_program = !default_one;
}

namespace cuda_double {
namespace {

constexpr std::uint64_t granule = std::uint64_t{2} << 20;  // what a pool takes from the device at once

std::uint64_t round_up(std::uint64_t bytes) { return (bytes + granule - 1) / granule * granule; }

Device& device_at(int device) { return *machine().devices[static_cast<std::size_t>(device)]; }

bool is_device(int device) { return device >= 0 && device < machine().setup.devices; }

// Books the bytes; the memory's mutex is held.
cudaError_t grow(CUmemPoolHandle_st& pool, std::size_t bytes) {
  const std::uint64_t used = pool.used + bytes;
  const std::uint64_t reserved = std::max(pool.reserved, round_up(used));
  Memory& memory = *machine().memory;
  const std::uint64_t others = memory.allocated[pool.device] + memory.held_by_pools(pool.device, &pool);
  const std::uint64_t limit = machine().setup.memory_bytes - others;
  if (used > limit || (pool.max_bytes != 0 && used > pool.max_bytes)) {
    return refuse(
        cudaErrorMemoryAllocation,
        fmt::format("the pool uses {} bytes and may have {}, {} asked for", pool.used, limit, bytes));
  }
  pool.used = used;
  pool.used_high = std::max(pool.used_high, used);
  pool.reserved = std::min(reserved, limit);
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  return cudaSuccess;
}

cudaError_t allocate_from(void** address, std::size_t bytes, cudaMemPool_t pool, cudaStream_t handle) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t bad = resolve(handle, &stream)) return bad;
  if (address == nullptr || !live(pool))
    return refuse(cudaErrorInvalidValue, "no place for the address, or no pool");
  if (is_capturing(*stream)) {
    return refuse_and_invalidate(*stream, cudaErrorStreamCaptureUnsupported,
                                 "the double does not model memory nodes of graphs");
  }
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  Memory& memory = *machine().memory;
  {
    const std::unique_lock lock(memory.mutex);
    if (const cudaError_t full = grow(*pool, bytes)) return full;
  }
  void* start = nullptr;
  if (posix_memalign(&start, 512, bytes) != 0)
    return refuse(cudaErrorMemoryAllocation, "the host is out of memory");
  auto* made = machine().make<Allocation>("device memory",
                                          fmt::format("{} bytes of a pool on device {}", bytes, pool->device),
                                          Place::device, pool->device, start, bytes);
  made->pool = pool;
  {
    const std::unique_lock lock(memory.mutex);
    memory.live[reinterpret_cast<std::uintptr_t>(start)] = made;
  }
  *address = start;
  // Written in stream order, so that use on a stream that does not wait is a data race.
  return submit(*stream, {.kind = kind<"allocation">(), .run = [=] { fill_with_garbage(start, bytes); }});
}

cudaError_t free_on(void* address, cudaStream_t handle) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t bad = resolve(handle, &stream)) return bad;
  if (address == nullptr) return cudaSuccess;
  const Region region = region_of(address, 1);
  if (region.place != Place::device || region.offset != 0 || region.allocation->pool == nullptr) {
    return refuse(cudaErrorInvalidValue, "not the start of live memory of a pool");
  }
  if (is_capturing(*stream)) {
    return refuse_and_invalidate(*stream, cudaErrorStreamCaptureUnsupported,
                                 "the double does not model memory nodes of graphs");
  }
  auto* freed = const_cast<Allocation*>(region.allocation);
  unmap(*freed);
  freed->owned_by_program = false;
  return submit(*stream, {.kind = kind<"free">(), .run = [freed] { give_back(*freed); }, .always = true});
}

cudaError_t create(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (pool == nullptr || properties == nullptr)
    return refuse(cudaErrorInvalidValue, "no pool or no properties");
  const bool known = properties->allocType == cudaMemAllocationTypePinned &&
                     properties->handleTypes == cudaMemHandleTypeNone &&
                     properties->location.type == cudaMemLocationTypeDevice;
  if (!known || !is_device(properties->location.id)) {
    return refuse(cudaErrorInvalidValue, "the double knows pools of pinned memory on a device, not shared");
  }
  *pool = machine().make<CUmemPoolHandle_st>(properties->location.id, false);
  (*pool)->max_bytes = properties->maxSize;
  const std::unique_lock lock(machine().memory->mutex);
  machine().memory->pools.push_back(*pool);
  return cudaSuccess;
}

cudaError_t set_attribute(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute, const void* value) {
  const std::unique_lock lock(machine().memory->mutex);
  const auto whole = [&] { return *static_cast<const int*>(value); };
  const auto bytes = [&] { return *static_cast<const std::uint64_t*>(value); };
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      pool.reuse_follow_events = whole();
      return cudaSuccess;
    case cudaMemPoolReuseAllowOpportunistic:
      pool.reuse_opportunistic = whole();
      return cudaSuccess;
    case cudaMemPoolReuseAllowInternalDependencies:
      pool.reuse_internal_dependencies = whole();
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      pool.release_threshold = bytes();
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      if (bytes() != 0) return refuse(cudaErrorInvalidValue, "a high-water mark can be set to 0 only");
      pool.reserved_high = pool.reserved;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      if (bytes() != 0) return refuse(cudaErrorInvalidValue, "a high-water mark can be set to 0 only");
      pool.used_high = pool.used;
      return cudaSuccess;
    default:
      return refuse(cudaErrorInvalidValue, "an attribute that cannot be set");
  }
}

cudaError_t get_attribute(const CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute, void* value) {
  const std::shared_lock lock(machine().memory->mutex);
  const auto whole = [&](int number) { return *static_cast<int*>(value) = number, cudaSuccess; };
  const auto bytes = [&](std::uint64_t number) {
    return *static_cast<std::uint64_t*>(value) = number, cudaSuccess;
  };
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      return whole(pool.reuse_follow_events);
    case cudaMemPoolReuseAllowOpportunistic:
      return whole(pool.reuse_opportunistic);
    case cudaMemPoolReuseAllowInternalDependencies:
      return whole(pool.reuse_internal_dependencies);
    case cudaMemPoolAttrReleaseThreshold:
      return bytes(pool.release_threshold);
    case cudaMemPoolAttrReservedMemCurrent:
      return bytes(pool.reserved);
    case cudaMemPoolAttrReservedMemHigh:
      return bytes(pool.reserved_high);
    case cudaMemPoolAttrUsedMemCurrent:
      return bytes(pool.used);
    case cudaMemPoolAttrUsedMemHigh:
      return bytes(pool.used_high);
    default:
      return refuse(cudaErrorInvalidValue, "an attribute that the double does not model");
  }
}

void trim(CUmemPoolHandle_st& pool, std::uint64_t keep) {
  if (pool.reserved > keep) pool.reserved = std::max(std::min(pool.reserved, round_up(pool.used)), keep);
}

}  // namespace

void make_default_pools(Machine& fresh) {
  for (int device = 0; device < fresh.setup.devices; ++device) {
    Device& owner = *fresh.devices[static_cast<std::size_t>(device)];
    owner.pool = owner.default_pool = fresh.make<CUmemPoolHandle_st>(device, true);
    fresh.memory->pools.push_back(owner.pool);
  }
}

void release_unused_pool_memory() {
  Memory& memory = *machine().memory;
  if (!memory.pools_may_hold_more.exchange(false, std::memory_order_relaxed)) return;
  const std::unique_lock lock(memory.mutex);
  for (auto* pool : memory.pools) trim(*pool, pool->release_threshold);
}

}  // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t stream) {
  return cuda_call<"cudaMallocAsync">([&]() -> cudaError_t {
    CUstream_st* on = nullptr;
    if (const cudaError_t bad = resolve(stream, &on)) return bad;
    return allocate_from(address, bytes, device_at(on->device).pool, stream);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** address, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return cuda_call<"cudaMallocFromPoolAsync">([&] { return allocate_from(address, bytes, pool, stream); });
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return cuda_call<"cudaFreeAsync", always>([&] { return free_on(address, stream); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return cuda_call<"cudaMemPoolCreate">([&] { return create(pool, properties); });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return cuda_call<"cudaMemPoolDestroy", always>([&] {
    if (!live(pool) || pool->is_default)
      return refuse(cudaErrorInvalidValue, "no pool that can be destroyed");
    pool->alive = false;
    Device& owner = device_at(pool->device);
    if (owner.pool == pool) owner.pool = owner.default_pool;
    const std::unique_lock lock(machine().memory->mutex);
    pool->reserved = round_up(pool->used);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return cuda_call<"cudaMemPoolSetAttribute">([&] {
    if (!live(pool) || value == nullptr) return refuse(cudaErrorInvalidValue, "no pool or no value");
    return set_attribute(*pool, attribute, value);
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return cuda_call<"cudaMemPoolGetAttribute">([&] {
    if (!live(pool) || value == nullptr) return refuse(cudaErrorInvalidValue, "no pool or no value");
    return get_attribute(*pool, attribute, value);
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return cuda_call<"cudaMemPoolTrimTo">([&] {
    if (!live(pool)) return refuse(cudaErrorInvalidValue, "no pool");
    const std::unique_lock lock(machine().memory->mutex);
    trim(*pool, keep);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return cuda_call<"cudaDeviceGetDefaultMemPool">([&] {
    if (pool == nullptr) return refuse(cudaErrorInvalidValue, "no result");
    if (!is_device(device)) return refuse(cudaErrorInvalidDevice, "no such device");
    *pool = device_at(device).default_pool;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cuda_call<"cudaDeviceGetMemPool">([&] {
    if (pool == nullptr) return refuse(cudaErrorInvalidValue, "no result");
    if (!is_device(device)) return refuse(cudaErrorInvalidDevice, "no such device");
    *pool = device_at(device).pool;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return cuda_call<"cudaDeviceSetMemPool">([&] {
    if (!is_device(device)) return refuse(cudaErrorInvalidDevice, "no such device");
    if (!live(pool) || pool->device != device) return refuse(cudaErrorInvalidValue, "no pool of this device");
    device_at(device).pool = pool;
    return cudaSuccess;
  });
}
