#include "kernels/cuda/compress.hpp"
#include "kernels/cuda/elementwise.hpp"
#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/meeting.cuh"

// Exact selection without sorting. The bits of a magnitude, read as an integer, order as magnitudes do. Three
// passes over the array fix the k-th largest one digit after the other, from histograms; a fourth counts
// what each block will send, and a fifth sends it in order of index.

namespace dtrain::kernels::cuda {

namespace {

constexpr unsigned bins = 2048;
constexpr unsigned histogram_blocks = 528;  // each merges its bins into one histogram
constexpr std::size_t tile = 4 * block_size;
constexpr unsigned max_chunks = 1024;

struct Search {
  unsigned threshold;  // as far as its bits are known; then the magnitude of the k-th largest
  unsigned wanted;     // how many of those at the threshold are among the k: the first ones
  unsigned arrived;    // see is_last_block
  unsigned histogram[bins];
};

// Of the magnitude's 31 bits, those that a pass looks at.
struct Digit {
  unsigned shift;
  unsigned bits;
};
constexpr Digit digits[] = {{20, 11}, {10, 10}, {0, 10}};

// What a block has, and after the scan, what all blocks before it have.
struct Counts {
  unsigned above;  // the threshold
  unsigned equal;
};

__device__ inline unsigned magnitude(float x) { return __float_as_uint(x) & 0x7fffffffU; }

__global__ void __launch_bounds__(block_size) start_search_kernel(Search* search, unsigned k) {
  for (unsigned bin = threadIdx.x; bin < bins; bin += block_size) search->histogram[bin] = 0;
  if (threadIdx.x != 0) return;
  search->threshold = 0;
  search->wanted = k;
  search->arrived = 0;
}

// One block: finds the bin that holds the `wanted`-th largest, and leaves the histogram empty.
__device__ inline void choose_bin(Search* search, Digit digit) {
  constexpr unsigned share = bins / block_size;
  const unsigned top = bins - 1 - threadIdx.x * share;  // this thread's largest bin
  unsigned own[share];
  unsigned sum = 0;
#pragma unroll
  for (unsigned i = 0; i < share; ++i) {
    own[i] = __ldcg(&search->histogram[top - i]);
    sum += own[i];
    search->histogram[top - i] = 0;
  }
  const unsigned wanted = search->wanted;
  unsigned total;
  unsigned above = sum_before(sum, total);
  __syncthreads();  // all have read what one is about to change
  if (above >= wanted || above + sum < wanted) return;
  for (unsigned i = 0; i < share; ++i) {
    if (above + own[i] >= wanted) {
      search->threshold |= (top - i) << digit.shift;
      search->wanted = wanted - above;
      return;
    }
    above += own[i];
  }
}

// Counts the digit of all magnitudes that agree with the threshold in the bits above it. `values`, if there,
// are first added to the residual.
__global__ void __launch_bounds__(block_size)
    count_digits_kernel(const float* values, float* residual, const __grid_constant__ Walk walk, Digit digit,
                        Search* search) {
  __shared__ unsigned counts[bins];
  for (unsigned bin = threadIdx.x; bin < bins; bin += block_size) counts[bin] = 0;
  const unsigned known = search->threshold >> (digit.shift + digit.bits);
  __syncthreads();

  walk_through<4>(walk, [&]<int N>(std::size_t first) {
    float x[N];
    load(residual + first, x);
    if (values != nullptr) {
      float more[N];
      load(values + first, more);
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] += more[i];
      store(residual + first, x);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const unsigned bits = magnitude(x[i]);
      if (bits >> (digit.shift + digit.bits) != known) continue;
      atomicAdd(&counts[(bits >> digit.shift) & ((1U << digit.bits) - 1)], 1U);
    }
  });

  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < bins; bin += block_size) {
    if (counts[bin] != 0) atomicAdd(&search->histogram[bin], counts[bin]);
  }
  if (is_last_block(&search->arrived)) choose_bin(search, digit);
}

// One block: counts of blocks become counts of all blocks before.
__device__ inline void scan_counts(Counts* counts, unsigned blocks) {
  Counts before = {0, 0};
  for (unsigned first = 0; first < blocks; first += block_size) {
    const unsigned block = first + threadIdx.x;
    Counts own = {0, 0};
    if (block < blocks) own = {__ldcg(&counts[block].above), __ldcg(&counts[block].equal)};
    Counts total;
    const unsigned above = sum_before(own.above, total.above);
    const unsigned equal = sum_before(own.equal, total.equal);
    if (block < blocks) counts[block] = {before.above + above, before.equal + equal};
    before.above += total.above;
    before.equal += total.equal;
  }
}

// Blocks have `chunk` neighbouring elements each.
__global__ void __launch_bounds__(block_size)
    count_chunks_kernel(const float* residual, std::size_t size, std::size_t chunk, Search* search,
                        Counts* counts) {
  const unsigned threshold = search->threshold;
  const std::size_t start = blockIdx.x * chunk;
  const std::size_t end = size - start < chunk ? size : start + chunk;
  unsigned above = 0;
  unsigned equal = 0;
  for (std::size_t i = start + threadIdx.x; i < end; i += block_size) {
    const unsigned bits = magnitude(residual[i]);
    above += bits > threshold ? 1 : 0;
    equal += bits == threshold ? 1 : 0;
  }
  above = sum_of_block(above);
  equal = sum_of_block(equal);
  if (threadIdx.x == 0) counts[blockIdx.x] = {above, equal};
  if (is_last_block(&search->arrived)) scan_counts(counts, gridDim.x);
}

__global__ void __launch_bounds__(block_size)
    send_kernel(float* residual, std::size_t size, std::size_t chunk, const Search* search,
                const Counts* counts, Pair* pairs) {
  const unsigned threshold = search->threshold;
  const unsigned wanted = search->wanted;
  const std::size_t start = blockIdx.x * chunk;
  const std::size_t end = size - start < chunk ? size : start + chunk;
  unsigned above = counts[blockIdx.x].above;  // before this tile
  unsigned equal = counts[blockIdx.x].equal;
  for (std::size_t first = start; first < end; first += tile) {
    const std::size_t own = first + threadIdx.x * 4;
    float x[4];
    unsigned bits[4];
    unsigned found = 0;  // above in the lower half, equal in the upper
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      x[i] = own + i < end ? residual[own + i] : 0.0F;
      bits[i] = magnitude(x[i]);
      if (own + i >= end) continue;
      found += bits[i] > threshold ? 1U : bits[i] == threshold ? 0x10000U : 0U;
    }
    unsigned total;
    const unsigned before = sum_before(found, total);
    unsigned next_above = above + (before & 0xffffU);
    unsigned next_equal = equal + (before >> 16);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if (own + i >= end || bits[i] < threshold) continue;
      const bool is_equal = bits[i] == threshold;
      if (!is_equal || next_equal < wanted) {
        const unsigned place = next_above + (next_equal < wanted ? next_equal : wanted);
        pairs[place] = {static_cast<std::uint32_t>(own + i), x[i]};
        residual[own + i] = 0.0F;
      }
      (is_equal ? next_equal : next_above) += 1;
    }
    above += total & 0xffffU;
    equal += total >> 16;
  }
}

// At most max_chunks, of whole tiles.
std::size_t chunk_for(std::size_t size) {
  const std::size_t tiles = (size + tile - 1) / tile;
  return (tiles + max_chunks - 1) / max_chunks * tile;
}

cudaError_t find_threshold(const float* values, float* residual, std::size_t size, Search* search,
                           cudaStream_t stream) {
  for (const Digit digit : digits) {
    const Array arrays[] = {residual, values};
    const Walk walk = make_walk(size, 4, arrays);
    const unsigned blocks = blocks_for(walk.items(4), histogram_blocks);
    const cudaError_t status =
        launch(count_digits_kernel, blocks, block_size, stream, values, residual, walk, digit, search);
    if (status != cudaSuccess) return status;
    values = nullptr;
  }
  return cudaSuccess;
}

}  // namespace

std::size_t top_k_scratch(std::size_t size) {
  return size == 0 ? 0 : sizeof(Search) + max_chunks * sizeof(Counts);
}

cudaError_t top_k(const float* values, float* residual, std::size_t size, std::size_t k, Pair* pairs,
                  void* scratch, cudaStream_t stream) {
  if (size >= std::size_t{1} << 31) return cudaErrorInvalidValue;
  if (size == 0) return cudaSuccess;
  if (k == 0) return accumulate(values, residual, Element::f32, size, stream);
  auto* search = static_cast<Search*>(scratch);
  auto* counts = reinterpret_cast<Counts*>(search + 1);
  const std::size_t chunk = chunk_for(size);
  const auto blocks = static_cast<unsigned>((size + chunk - 1) / chunk);

  cudaError_t status = launch_independent(start_search_kernel, 1, block_size, stream, search,
                                          static_cast<unsigned>(k < size ? k : size));
  if (status == cudaSuccess) status = find_threshold(values, residual, size, search, stream);
  if (status == cudaSuccess) {
    status = launch(count_chunks_kernel, blocks, block_size, stream, residual, size, chunk, search, counts);
  }
  if (status != cudaSuccess) return status;
  return launch(send_kernel, blocks, block_size, stream, residual, size, chunk, search, counts, pairs);
}

}  // namespace dtrain::kernels::cuda
