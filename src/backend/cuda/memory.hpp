#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "config/options.hpp"

namespace dtrain::backend::cuda {

struct MemoryPolicy {
  config::Allocator allocator = config::Allocator::standard;
  bool growth = false;    // standard: one allocation a block instead of one for all
  std::size_t limit = 0;  // bytes this replica may take; 0 = as much as there is
};

// What could not be had. The replica knows more (batches, images) and says it.
struct OutOfMemory {
  std::size_t asked = 0;
  std::size_t taken = 0;  // by this replica already
  std::size_t free = 0;   // on the device
};

// The device memory of one replica. Blocks are aligned to 512 bytes and live as long as this does.
//
// The standard allocator reserves `planned` bytes in one allocation and hands out parts of it; what is asked
// for beyond that is allocated on its own. With growth every block is. The async one takes blocks from a
// stream-ordered pool of its own, which keeps what is freed.
class DeviceMemory {
 public:
  DeviceMemory(int device, cudaStream_t stream, const MemoryPolicy& policy, std::size_t planned);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  static constexpr std::size_t alignment = 512;
  static constexpr std::size_t padded(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

  void* take(std::size_t bytes);  // throws OutOfMemory; contents undefined
  template <class T>
  std::span<T> take_array(std::size_t count) {
    return {static_cast<T*>(take(count * sizeof(T))), count};
  }

  std::size_t taken() const { return taken_; }  // bytes asked for
  std::size_t peak() const;                     // bytes held from the device at most

 private:
  void* allocate(std::size_t bytes);
  void await_allocation();
  void free_all() noexcept;

  int device_;
  cudaStream_t stream_;
  MemoryPolicy policy_;
  cudaMemPool_t pool_ = nullptr;
  std::vector<void*> blocks_;
  std::byte* reserve_ = nullptr;
  std::size_t reserve_left_ = 0;
  std::size_t taken_ = 0;
  std::size_t held_ = 0;
};

// Host memory that the device reads and writes by itself.
template <class T>
class PinnedArray {
 public:
  PinnedArray() = default;
  explicit PinnedArray(std::size_t count) : count_(count) {
    void* memory = nullptr;
    DTRAIN_CUDA(cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocPortable));
    data_.reset(static_cast<T*>(memory));
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return count_; }

 private:
  struct Free {
    void operator()(T* memory) const { DTRAIN_CUDA_QUIETLY(cudaFreeHost(memory)); }
  };
  std::unique_ptr<T[], Free> data_;
  std::size_t count_ = 0;
};

}  // namespace dtrain::backend::cuda
