#pragma once

#include <map>
#include <shared_mutex>

#include "machine.hpp"

namespace cuda_double {
struct Allocation;
}

struct CUmemPoolHandle_st : cuda_double::Object {
  CUmemPoolHandle_st(int device, bool is_default);

  int device;
  bool is_default;
  std::uint64_t release_threshold = 0;
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t reserved = 0;
  std::uint64_t reserved_high = 0;
  std::uint64_t max_bytes = 0;  // 0 = the device's memory
  int reuse_follow_events = 1;
  int reuse_opportunistic = 1;
  int reuse_internal_dependencies = 1;
};

namespace cuda_double {

class Machine;

enum class Place { device, pinned, registered, pageable };

struct Allocation : Object {
  Allocation(const char* what, const std::string& detail, Place where, int on, void* start, std::size_t size)
      : Object(what, detail), place(where), device(on), address(start), bytes(size) {}
  ~Allocation() override;

  Place place;
  int device;  // -1 for host memory
  void* address;
  std::size_t bytes;
  cudaMemPool_t pool = nullptr;
  bool by_nccl = false;
};

// Device memory is the host's: one block an allocation, exactly as long as asked for, so that the address
// sanitizer sees overruns and use after free.
struct Memory {
  mutable std::shared_mutex mutex;  // shared for looking up, which orders no threads
  std::map<std::uintptr_t, Allocation*> live;
  std::map<int, std::uint64_t> allocated;  // by device, by cudaMalloc
  std::vector<cudaMemPool_t> pools;
  std::atomic<bool> pools_may_hold_more{false};

  std::uint64_t held_by_pools(int device, const CUmemPoolHandle_st* except = nullptr) const;  // mutex held
};

void make_default_pools(Machine& machine);

// What is known of [address, address + bytes). Pageable where nothing is.
struct Region {
  Place place = Place::pageable;
  int device = -1;
  bool whole = true;  // all of it lies within one allocation
  std::size_t offset = 0;
  const Allocation* allocation = nullptr;
};
Region region_of(const void* address, std::size_t bytes);

// Refused unless it is live memory of this device (or of one whose memory this device may use).
cudaError_t require_device_memory(const void* address, std::size_t bytes, int device, const char* what);

cudaError_t allocate_device_memory(void** address, std::size_t bytes, const char* what, bool by_nccl);
cudaError_t free_device_memory(void* address, bool by_nccl);

// Memory that pools hold beyond their threshold goes back when something is waited for.
void release_unused_pool_memory();

void unmap(Allocation& allocation);      // the program does not own it any more
void give_back(Allocation& allocation);  // and nothing uses it

void fill_with_garbage(void* address, std::size_t bytes);  // not-a-number in every floating-point type

}  // namespace cuda_double
