#include "kernels/cuda/bias_gradient.hpp"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace dtrain::kernels::cuda {

namespace {

// Rows are cut into chunks, channels into tiles of `tile` <= block_size neighbouring ones. A block takes one
// chunk of one tile; its threads are block_size / tile rows of `tile` channels.
struct Division {
  unsigned channels = 0;
  unsigned tile = 0;
  unsigned tiles = 0;
  unsigned chunks = 0;
  std::size_t rows = 0;
};

template <class T>
__global__ void __launch_bounds__(block_size)
    sum_chunk(const T* values, const __grid_constant__ Division division, float* partial) {
  __shared__ float sums[block_size];
  const unsigned tile = blockIdx.x % division.tiles;
  const unsigned chunk = blockIdx.x / division.tiles;
  const unsigned channel = tile * division.tile + threadIdx.x % division.tile;
  const unsigned row_of_thread = threadIdx.x / division.tile;
  const unsigned rows_at_once = block_size / division.tile;
  const bool takes_part = row_of_thread < rows_at_once && channel < division.channels;

  const std::size_t first = division.rows * chunk / division.chunks;
  const std::size_t end = division.rows * (chunk + 1) / division.chunks;
  float sum = 0.0F;
  if (takes_part) {
    for (std::size_t row = first + row_of_thread; row < end; row += rows_at_once) {
      sum += to_float(values[row * division.channels + channel]);
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (row_of_thread != 0 || channel >= division.channels) return;
  for (unsigned row = 1; row < rows_at_once; ++row) sum += sums[row * division.tile + threadIdx.x];
  partial[static_cast<std::size_t>(chunk) * division.channels + channel] = sum;
}

__global__ void __launch_bounds__(block_size)
    sum_chunks(const float* partial, unsigned chunks, unsigned channels, float* sums, bool add) {
  const unsigned channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel >= channels) return;
  float sum = 0.0F;
  for (unsigned chunk = 0; chunk < chunks; ++chunk) {
    sum += partial[static_cast<std::size_t>(chunk) * channels + channel];
  }
  sums[channel] = add ? sums[channel] + sum : sum;
}

}  // namespace

cudaError_t bias_gradient(const void* values, Element element, std::size_t rows, int channels, float* sums,
                          bool add, float* scratch, cudaStream_t stream) {
  if (channels == 0) return cudaSuccess;
  Division division;
  division.channels = static_cast<unsigned>(channels);
  division.tile = division.channels < block_size ? division.channels : block_size;
  division.tiles = (division.channels + division.tile - 1) / division.tile;
  division.chunks = rows < bias_chunks ? static_cast<unsigned>(rows) : bias_chunks;
  division.rows = rows;
  if (rows > 0) {
    const cudaError_t status = with_element(element, [&]<class T>(ElementType<T>) {
      return launch(sum_chunk<T>, division.chunks * division.tiles, block_size, stream,
                    static_cast<const T*>(values), division, scratch);
    });
    if (status != cudaSuccess) return status;
  }
  return launch_independent(sum_chunks, blocks_for(division.channels), block_size, stream,
                            static_cast<const float*>(scratch), division.chunks, division.channels, sums,
                            add);
}

}  // namespace dtrain::kernels::cuda
