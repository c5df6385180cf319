#include "backend/cuda/memory.hpp"

#include <cstdint>

#include "base/error.hpp"

namespace dtrain::backend::cuda {

namespace {

std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  DTRAIN_CUDA(cudaMemGetInfo(&free, &total));
  return free;
}

cudaMemPool_t make_pool(int device) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  DTRAIN_CUDA(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

// Memory that is freed stays in the pool: giving it back would cost a synchronisation each time.
void keep_all(cudaMemPool_t pool) {
  std::uint64_t everything = UINT64_MAX;
  DTRAIN_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything));
}

}  // namespace

DeviceMemory::DeviceMemory(int device, cudaStream_t stream, const MemoryPolicy& policy, std::size_t planned)
    : device_(device), stream_(stream), policy_(policy) {
  const OnDevice current(device_);
  try {
    if (policy_.allocator == config::Allocator::async) {
      pool_ = make_pool(device_);
      keep_all(pool_);
    } else if (!policy_.growth && planned > 0) {
      reserve_ = static_cast<std::byte*>(allocate(padded(planned)));
      reserve_left_ = padded(planned);
    }
  } catch (...) {
    free_all();
    throw;
  }
}

DeviceMemory::~DeviceMemory() { free_all(); }

void* DeviceMemory::take(std::size_t bytes) {
  const std::size_t size = padded(bytes == 0 ? 1 : bytes);
  void* block = nullptr;
  if (size <= reserve_left_) {
    block = reserve_;
    reserve_ += size;
    reserve_left_ -= size;
  } else {
    const OnDevice current(device_);
    block = allocate(size);
  }
  taken_ += size;
  return block;
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (policy_.limit > 0 && held_ + bytes > policy_.limit) {
    throw OutOfMemory{bytes, held_, policy_.limit - std::min(held_, policy_.limit)};
  }
  void* block = nullptr;
  const cudaError_t status =
      pool_ != nullptr ? cudaMallocFromPoolAsync(&block, bytes, pool_, stream_) : cudaMalloc(&block, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw OutOfMemory{bytes, held_, free_memory()};
  }
  DTRAIN_CUDA(status);
  blocks_.push_back(block);
  held_ += bytes;
  if (pool_ != nullptr) await_allocation();
  return block;
}

// What comes from a pool is there for work behind it on this stream; now it is there for all.
void DeviceMemory::await_allocation() {
  constexpr Seconds patience{20.0};
  const Event there = make_event();
  DTRAIN_CUDA(cudaEventRecord(there.get(), stream_));
  if (wait_for(there.get(), Deadline::in(patience))) return;
  throw run_error(fmt::format("GPU {} has not given memory for {:g} s", device_, patience.count()),
                  "look at `dtrain info` and the system's log for a failed GPU");
}

std::size_t DeviceMemory::peak() const {
  if (pool_ == nullptr) return held_;
  std::uint64_t high = 0;
  DTRAIN_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &high));
  return static_cast<std::size_t>(high);
}

void DeviceMemory::free_all() noexcept {
  for (void* block : blocks_) {
    if (pool_ != nullptr) {
      DTRAIN_CUDA_QUIETLY(cudaFreeAsync(block, stream_));
    } else {
      DTRAIN_CUDA_QUIETLY(cudaFree(block));
    }
  }
  blocks_.clear();
  if (pool_ != nullptr) {
    DTRAIN_CUDA_QUIETLY(cudaStreamSynchronize(stream_));
    DTRAIN_CUDA_QUIETLY(cudaMemPoolDestroy(pool_));
  }
}

}  // namespace dtrain::backend::cuda
