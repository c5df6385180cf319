#pragma once

// CUDA's device language for a host compiler, so that the product's own kernels run on the CPU, under the
// sanitizers too. Included ahead of each .cu (-include simt/simt.hpp); launch.cuh comes here for launches.
//
// Grids and blocks have one dimension. Blocks run one after the other. Threads of a block run in a shuffled
// order, each up to its next barrier or shuffle. Everything belongs to the calling OS thread, __shared__
// included, so that several may run kernels at once. What would be undefined on a GPU is an Error: threads
// that wait at different places, that leave while others wait, that shuffle from lanes that take no part, or
// touch a pack at an address that is not a multiple of its size.
//
// Under ThreadSanitizer nothing but barriers, __syncwarp and atomics orders the threads of a block, so that
// it reports races in shared and global memory among them.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <type_traits>

#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)

namespace simt {

// Provided by the test program: runs `kernel`, now or when the stream's earlier work is done, or says why it
// could not be launched. `kernel` throws Error.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> kernel);

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Where the running thread is.
struct Position {
  uint3 thread, block;
  dim3 threads, blocks;
};
extern constinit thread_local Position here;

// Another seed is another order of threads and blocks.
void set_seed(std::uint64_t seed);

inline constexpr unsigned warp = 32;
inline constexpr unsigned max_threads = 1024;

void run_cooperative(unsigned blocks, unsigned threads, const std::function<void()>& body);

// Orders of an independent launch: blocks and threads go up or down.
struct Directions {
  bool blocks_down = false;
  bool threads_down = false;
};
Directions directions();

template <class Body>
void run_independent(unsigned blocks, unsigned threads, const Body& body) {
  const Directions down = directions();
  const Position before = here;
  here = {{0, 0, 0}, {0, 0, 0}, {threads, 1, 1}, {blocks, 1, 1}};
  for (unsigned block = 0; block < blocks; ++block) {
    here.block.x = down.blocks_down ? blocks - 1 - block : block;
    for (unsigned thread = 0; thread < threads; ++thread) {
      here.thread.x = down.threads_down ? threads - 1 - thread : thread;
      body();
    }
  }
  here = before;
}

inline bool is_launchable(unsigned blocks, unsigned threads) {
  return blocks > 0 && blocks < (1U << 31) && threads > 0 && threads <= max_threads;
}

template <class Body>
cudaError_t launch(unsigned blocks, unsigned threads, cudaStream_t stream, Body body) {
  if (!is_launchable(blocks, threads)) return cudaErrorInvalidConfiguration;
  return enqueue(stream, [=] { run_cooperative(blocks, threads, body); });
}

template <class Body>
cudaError_t launch_independent(unsigned blocks, unsigned threads, cudaStream_t stream, Body body) {
  if (!is_launchable(blocks, threads)) return cudaErrorInvalidConfiguration;
  return enqueue(stream, [=] { run_independent(blocks, threads, body); });
}

// A meeting of the threads of a block, or of lanes of a warp.
enum class Meeting { barrier, warp_barrier, shuffle, ballot };
using Where = std::source_location;

// Waits for all threads of the block; how many of them came with `vote`.
unsigned meet_block(bool vote, const Where& where);
// Waits for the lanes of `mask`. shuffle: the value that lane `source` came with; ballot: the lanes whose
// value is not 0.
std::uint64_t meet_warp(Meeting meeting, unsigned mask, std::uint64_t value, unsigned source,
                        const Where& where);

[[noreturn]] void misaligned(const void* address, std::size_t bytes);

inline void move_aligned(void* to, const void* from, std::size_t bytes, const void* checked) {
  if (reinterpret_cast<std::uintptr_t>(checked) % bytes != 0) misaligned(checked, bytes);
  std::memcpy(to, from, bytes);
}

inline unsigned lane() { return here.thread.x % warp; }

template <class T>
T shuffle(unsigned mask, T value, unsigned source, const Where& where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = meet_warp(Meeting::shuffle, mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace simt

#define threadIdx (::simt::here.thread)
#define blockIdx (::simt::here.block)
#define blockDim (::simt::here.threads)
#define gridDim (::simt::here.blocks)
#define warpSize 32

#include "simt/device_functions.hpp"
