#include "kernels/cuda/bias_gradient.hpp"

#include "kernels/cuda/for_each.cuh"

namespace dtrain::kernels::cuda {

namespace {

// Rows are cut into chunks, and channels, N at a time, into columns. A block takes one chunk of `tile`
// neighbouring columns; its threads stand in block_size / tile rows.
struct Division {
  std::size_t rows = 0;
  unsigned channels = 0;
  unsigned columns = 0;
  unsigned tile = 0;
  unsigned tiles = 0;
  unsigned chunks = 0;
};

constexpr std::size_t rows_of_thread = 8;  // at least, where there are so many

Division divide(std::size_t rows, unsigned channels, unsigned width) {
  Division division;
  division.rows = rows;
  division.channels = channels;
  division.columns = channels / width;
  division.tile = division.columns < block_size ? division.columns : block_size;
  division.tiles = (division.columns + division.tile - 1) / division.tile;
  const std::size_t rows_of_block = block_size / division.tile * rows_of_thread;
  const std::size_t chunks = (rows + rows_of_block - 1) / rows_of_block;
  division.chunks = chunks < bias_chunks ? static_cast<unsigned>(chunks) : bias_chunks;
  return division;
}

template <class T, int N>
__global__ void __launch_bounds__(block_size)
    sum_chunk_kernel(const T* __restrict__ values, const __grid_constant__ Division division,
                     float* __restrict__ partial) {
  __shared__ float sums[block_size * N];  // [row][column][N]
  const unsigned tile = blockIdx.x % division.tiles;
  const unsigned chunk = blockIdx.x / division.tiles;
  const unsigned column = tile * division.tile + threadIdx.x % division.tile;
  const unsigned row_of_thread = threadIdx.x / division.tile;
  const unsigned rows_at_once = block_size / division.tile;

  float sum[N] = {};
  if (row_of_thread < rows_at_once && column < division.columns) {
    const std::size_t first = division.rows * chunk / division.chunks;
    const std::size_t end = division.rows * (chunk + 1) / division.chunks;
#pragma unroll 4
    for (std::size_t row = first + row_of_thread; row < end; row += rows_at_once) {
      float some[N];
      load(values + row * division.channels + column * N, some);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += some[i];
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sums[threadIdx.x * N + i] = sum[i];
  __syncthreads();

  const unsigned width = division.tile * N;  // channels of the block
  for (unsigned c = threadIdx.x; c < width; c += block_size) {
    const unsigned channel = tile * width + c;
    if (channel >= division.channels) return;
    float total = sums[c];
    for (unsigned row = 1; row < rows_at_once; ++row) total += sums[row * width + c];
    partial[static_cast<std::size_t>(chunk) * division.channels + channel] = total;
  }
}

constexpr unsigned channels_of_block = 8;

__global__ void __launch_bounds__(block_size)
    sum_chunks_kernel(const float* __restrict__ partial, unsigned chunks, unsigned channels, float* sums,
                      bool add) {
  constexpr unsigned rows = block_size / channels_of_block;
  __shared__ float shared[rows][channels_of_block];
  const unsigned row = threadIdx.x / channels_of_block;
  const unsigned column = threadIdx.x % channels_of_block;
  const unsigned channel = blockIdx.x * channels_of_block + column;
  float sum = 0.0F;
  if (channel < channels) {
#pragma unroll 8
    for (unsigned chunk = row; chunk < chunks; chunk += rows) {
      sum += partial[static_cast<std::size_t>(chunk) * channels + channel];
    }
  }
  shared[row][column] = sum;
  __syncthreads();
  if (row != 0 || channel >= channels) return;
  for (unsigned other = 1; other < rows; ++other) sum += shared[other][column];
  sums[channel] = add ? sums[channel] + sum : sum;
}

template <class T, int N>
cudaError_t sum_chunks(const T* values, const Division& division, float* scratch, cudaStream_t stream) {
  return launch(sum_chunk_kernel<T, N>, division.chunks * division.tiles, block_size, stream, values,
                division, scratch);
}

}  // namespace

cudaError_t bias_gradient(const void* values, Element element, std::size_t rows, int channels, float* sums,
                          bool add, float* scratch, cudaStream_t stream) {
  if (channels == 0) return cudaSuccess;
  const auto width = static_cast<unsigned>(channels);
  return with_element(element, [&]<class T>(ElementType<T>) {
    constexpr int pack = full_pack<T>;
    const T* from = static_cast<const T*>(values);
    const bool packs = width % pack == 0 && is_aligned(from, 0, pack);
    const Division division = divide(rows, width, packs ? pack : 1);
    cudaError_t status = cudaSuccess;
    if (rows > 0) {
      status = packs ? sum_chunks<T, pack>(from, division, scratch, stream)
                     : sum_chunks<T, 1>(from, division, scratch, stream);
    }
    if (status != cudaSuccess) return status;
    const unsigned blocks = (width + channels_of_block - 1) / channels_of_block;
    return launch(sum_chunks_kernel, blocks, block_size, stream, scratch, division.chunks, width, sums, add);
  });
}

}  // namespace dtrain::kernels::cuda
