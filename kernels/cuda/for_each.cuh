#pragma once

// Loops over whole arrays. A work object says what happens to N neighbouring elements:
//
//   struct Work {
//     static constexpr int width = 4;                              // elements in a pack
//     template <int N> __device__ void at(std::size_t first) const;  // N is width or 1
//     __device__ bool idle() const;                                // optional: nothing is to be done
//   };

#include <cstdint>
#include <initializer_list>
#include <span>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace dtrain::kernels::cuda {

// One of the arrays that a loop runs over.
struct Array {
  template <class T>
  Array(const T* array) : data(array), element_bytes(sizeof(T)) {}
  const void* data;  // null: not there
  std::size_t element_bytes;
};

// `head` single elements up to where all arrays are aligned, then packs, then single ones to the end.
struct Walk {
  std::size_t size = 0;
  std::size_t head = 0;
  std::size_t packs = 0;
  std::size_t items(std::size_t width) const { return size - packs * (width - 1); }
};

inline bool is_aligned(const Array& array, std::size_t first, std::size_t width) {
  const std::size_t bytes = width * array.element_bytes;
  const auto address = reinterpret_cast<std::uintptr_t>(array.data) + first * array.element_bytes;
  return array.data == nullptr || address % (bytes < 16 ? bytes : 16) == 0;
}

inline Walk make_walk(std::size_t size, std::size_t width, std::span<const Array> arrays) {
  for (std::size_t head = 0; head < width && head < size; ++head) {
    bool aligned = true;
    for (const Array& array : arrays) aligned = aligned && is_aligned(array, head, width);
    if (aligned) return {size, head, (size - head) / width};
  }
  return {size, 0, 0};
}

// Calls visit.operator()<N>(first) for this thread's share.
template <int Width, class Visit>
__device__ inline void walk_through(const Walk& walk, Visit visit) {
  const std::size_t items = walk.size - walk.packs * (Width - 1);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < items;
       i += step) {
    if (i < walk.packs) {
      visit.template operator()<Width>(walk.head + i * Width);
    } else {
      const std::size_t single = i - walk.packs;
      visit.template operator()<1>(single < walk.head ? single : single + walk.packs * Width);
    }
  }
}

template <class Work>
__global__ void __launch_bounds__(block_size)
    for_each_kernel(const __grid_constant__ Walk walk, const __grid_constant__ Work work) {
  if constexpr (requires { work.idle(); }) {
    if (work.idle()) return;
  }
  walk_through<Work::width>(walk, [&]<int N>(std::size_t first) { work.template at<N>(first); });
}

// Enqueues `work` over `size` elements of the arrays, which are all that it touches.
template <class Work>
cudaError_t for_each(std::size_t size, cudaStream_t stream, const Work& work, std::span<const Array> arrays) {
  if (size == 0) return cudaSuccess;
  const Walk walk = make_walk(size, Work::width, arrays);
  return launch_independent(for_each_kernel<Work>, blocks_for(walk.items(Work::width)), block_size, stream,
                            walk, work);
}

template <class Work>
cudaError_t for_each(std::size_t size, cudaStream_t stream, const Work& work,
                     std::initializer_list<Array> arrays) {
  return for_each(size, stream, work, std::span<const Array>(arrays.begin(), arrays.size()));
}

}  // namespace dtrain::kernels::cuda
