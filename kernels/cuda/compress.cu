#include "kernels/cuda/compress.hpp"

#include "kernels/cuda/for_each.cuh"

namespace dtrain::kernels::cuda {

namespace {

template <class T>
inline constexpr float largest_value = 3.40282346638528859812e+38F;
template <>
inline constexpr float largest_value<__half> = 65504.0F;
template <>
inline constexpr float largest_value<__nv_bfloat16> = 3.38953138925153547590e+38F;

template <class T>
struct Compress {
  static constexpr int width = full_pack<T>;
  const float* __restrict__ values;
  float* __restrict__ residual;
  T* __restrict__ to;

  template <int N>
  __device__ void at(std::size_t first) const {
    float wanted[N], rest[N];
    load(values + first, wanted);
    load(residual + first, rest);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float exact = wanted[i] + rest[i];
      if (not_finite(exact)) {
        wanted[i] = exact;
        rest[i] = 0.0F;
        continue;
      }
      wanted[i] = exact > largest_value<T>    ? largest_value<T>
                  : exact < -largest_value<T> ? -largest_value<T>
                                              : exact;
      T sent;
      from_float(wanted[i], sent);
      rest[i] = exact - to_float(sent);
    }
    store(to + first, wanted);
    store(residual + first, rest);
  }
};

__global__ void __launch_bounds__(block_size)
    scatter_add_kernel(const Pair* __restrict__ pairs, std::size_t count, float* values) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    values[pairs[i].index] += pairs[i].value;
  }
}

}  // namespace

cudaError_t compress(const float* values, float* residual, void* to, Element element, std::size_t size,
                     cudaStream_t stream) {
  return with_element(element, [&]<class T>(ElementType<T>) {
    const Compress<T> work{values, residual, static_cast<T*>(to)};
    return for_each(size, stream, work, {work.values, work.residual, work.to});
  });
}

cudaError_t scatter_add(const Pair* pairs, std::size_t count, float* values, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return launch_independent(scatter_add_kernel, blocks_for(count), block_size, stream, pairs, count, values);
}

}  // namespace dtrain::kernels::cuda
