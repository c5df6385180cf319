// Runs tests/kernels_cuda on a real GPU, as they are. They give kernels host memory: the heap, and flags on
// the stack. So both are managed memory here, which host and GPU share, and every launch is waited for.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "why_no_gpu.hpp"

namespace {

// A heap in managed memory: blocks of powers of two, freed ones kept by size. Memory that is not the tests'
// own (of CUDA, of what was there before) comes from malloc.
class Heap {
 public:
  static constexpr std::size_t least = 256;  // bytes; the alignment too

  void open(std::byte* memory, std::size_t size) {
    begin_ = next_ = memory;
    end_ = memory + size;
  }
  bool owns(const void* block) const { return block >= begin_ && block < end_; }

  void* take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const std::size_t size = std::bit_ceil(std::max(bytes, least));
    Free*& list = free_[std::countr_zero(size)];
    if (list != nullptr) return std::exchange(list, list->next);
    // In front of each block stands its size.
    if (static_cast<std::size_t>(end_ - next_) < size + least) return nullptr;
    std::byte* block = next_ + least;
    *reinterpret_cast<std::size_t*>(next_) = size;
    next_ = block + size;
    return block;
  }
  void give(void* block) {
    const std::scoped_lock lock(mutex_);
    const auto size = *reinterpret_cast<std::size_t*>(static_cast<std::byte*>(block) - least);
    Free*& list = free_[std::countr_zero(size)];
    list = new (block) Free{list};
  }

 private:
  struct Free {
    Free* next;
  };
  std::mutex mutex_;
  std::byte* begin_ = nullptr;
  std::byte* end_ = nullptr;
  std::byte* next_ = nullptr;
  Free* free_[64] = {};
};

constinit Heap heap;
constinit thread_local bool in_tests = false;

void* allocate(std::size_t bytes) {
  void* block = in_tests ? heap.take(bytes) : nullptr;
  if (block == nullptr)
    block = std::aligned_alloc(Heap::least, (bytes + Heap::least) / Heap::least * Heap::least);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block) noexcept {
  if (heap.owns(block)) {
    heap.give(block);
  } else {
    std::free(block);
  }
}

void* run_tests(void*) {
  in_tests = true;
  const bool failed = RUN_ALL_TESTS() != 0;
  in_tests = false;
  return failed ? &heap : nullptr;
}

bool attribute(cudaDeviceAttr which) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess && value != 0;
}

[[noreturn]] void skip(const char* reason) {
  std::printf("SKIPPED: %s\n", reason);
  std::fflush(stdout);
  std::_Exit(dtrain::testing::skipped);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t) { return allocate(bytes); }
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }

int main(int argc, char** argv) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  ::testing::InitGoogleTest(&argc, argv);
  const std::string reason = dtrain::testing::why_no_gpu();
  if (!reason.empty()) skip(reason.c_str());
  if (!attribute(cudaDevAttrConcurrentManagedAccess)) {
    skip("host and GPU cannot share managed memory at the same time here");
  }
  constexpr std::size_t heap_bytes = std::size_t{2} << 30;
  constexpr std::size_t stack_bytes = std::size_t{64} << 20;
  void* memory = nullptr;
  if (cudaMallocManaged(&memory, heap_bytes + stack_bytes, cudaMemAttachGlobal) != cudaSuccess) {
    skip("there is no managed memory to be had");
  }
  auto* stack = static_cast<std::byte*>(memory);
  heap.open(stack + stack_bytes, heap_bytes);

  pthread_attr_t attributes;
  pthread_t thread;
  void* failed = nullptr;
  if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstack(&attributes, stack, stack_bytes) != 0 ||
      pthread_create(&thread, &attributes, run_tests, nullptr) != 0 || pthread_join(thread, &failed) != 0) {
    std::printf("the tests' thread could not be started\n");
    return 1;
  }
  // At once: what still lies in managed memory must not be looked at after CUDA has gone.
  std::fflush(nullptr);
  std::_Exit(failed != nullptr ? 1 : 0);
}
