#pragma once

// How a kernel is put on a stream. Compiled by nvcc it runs on the GPU; compiled by a host compiler with the
// SIMT shim of the tests it runs on the CPU.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

namespace dtrain::kernels::cuda {

inline constexpr unsigned block_size = 256;  // threads
inline constexpr unsigned warp_size = 32;
inline constexpr unsigned max_blocks = 4096;  // kernels stride over what is left

// Blocks of block_size that give each item a thread, up to `most`.
inline unsigned blocks_for(std::size_t items, unsigned most = max_blocks) {
  const std::size_t blocks = (items + block_size - 1) / block_size;
  return blocks < most ? static_cast<unsigned>(blocks) : most;
}

// A kernel whose threads meet: barriers, shuffles, votes.
template <class... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, cudaStream_t stream,
                   std::type_identity_t<Parameters>... arguments) {
#ifdef __CUDACC__
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
  return cudaGetLastError();
#else
  return simt::launch(blocks, threads, stream, [=] { kernel(arguments...); });
#endif
}

// A kernel whose threads know nothing of each other but for atomics.
template <class... Parameters>
cudaError_t launch_independent(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                               cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
#ifdef __CUDACC__
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
  return cudaGetLastError();
#else
  return simt::launch_independent(blocks, threads, stream, [=] { kernel(arguments...); });
#endif
}

}  // namespace dtrain::kernels::cuda
