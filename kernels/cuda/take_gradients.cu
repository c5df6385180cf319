#include "kernels/cuda/take_gradients.hpp"

#include "kernels/cuda/for_each.cuh"

namespace dtrain::kernels::cuda {

namespace {

constexpr int width = 8;
constexpr std::size_t chunk = block_size * width;  // elements that a block takes at a time

struct SegmentList {
  Segment segments[max_segments];
  std::size_t first_chunk[max_segments + 1];  // counted over all segments; one more for the end
  int count;
};

template <class T>
struct Take {
  const T* from;
  float* to;
  std::int32_t* flag;
  bool add;

  template <int N>
  __device__ void at(std::size_t from_first, std::size_t to_first) const {
    float values[N];
    load(from + from_first, values);
    if (add) {
      float before[N];
      load(to + to_first, before);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] += before[i];
    }
    store(to + to_first, values);
    if (flag == nullptr) return;
    bool bad = false;
#pragma unroll
    for (int i = 0; i < N; ++i) bad = bad || not_finite(values[i]);
    if (bad) atomicOr(flag, 1);
  }
};

template <class T>
__global__ void __launch_bounds__(block_size)
    take_gradients_kernel(const __grid_constant__ Take<T> take, const __grid_constant__ SegmentList list,
                          bool aligned) {
  const std::size_t chunks = list.first_chunk[list.count];
  int s = 0;
  for (std::size_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    while (c >= list.first_chunk[s + 1]) ++s;
    const Segment segment = list.segments[s];
    const std::size_t start = (c - list.first_chunk[s]) * chunk;
    const std::size_t size = segment.size - start < chunk ? segment.size - start : chunk;
    const std::size_t packs = aligned && (segment.from | segment.to) % width == 0 ? size / width : 0;

    if (threadIdx.x < packs) {
      const std::size_t i = start + threadIdx.x * width;
      take.template at<width>(segment.from + i, segment.to + i);
    }
    for (std::size_t i = packs * width + threadIdx.x; i < size; i += block_size) {
      take.template at<1>(segment.from + start + i, segment.to + start + i);
    }
  }
}

}  // namespace

cudaError_t take_gradients(const void* from, Element element, float* to, std::span<const Segment> segments,
                           bool add, std::int32_t* flag, cudaStream_t stream) {
  if (segments.size() > max_segments) return cudaErrorInvalidValue;
  SegmentList list = {};
  for (const Segment& segment : segments) {
    list.segments[list.count] = segment;
    list.first_chunk[list.count + 1] = list.first_chunk[list.count] + (segment.size + chunk - 1) / chunk;
    ++list.count;
  }
  const std::size_t chunks = list.first_chunk[list.count];
  if (chunks == 0) return cudaSuccess;
  const unsigned blocks = chunks < max_blocks ? static_cast<unsigned>(chunks) : max_blocks;
  return with_element(element, [&]<class T>(ElementType<T>) {
    const Take<T> take = {static_cast<const T*>(from), to, flag, add};
    const bool aligned = is_aligned(take.from, 0, width) && is_aligned(to, 0, width);
    return launch_independent(take_gradients_kernel<T>, blocks, block_size, stream, take, list, aligned);
  });
}

}  // namespace dtrain::kernels::cuda
