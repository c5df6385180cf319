#include "kernels/cuda/batch_norm.hpp"

#include "kernels/cuda/for_each.cuh"

namespace dtrain::kernels::cuda {

namespace {

constexpr std::size_t rows_of_thread = 8;  // for which a thread's numbers are worth fetching

// The numbers of N neighbouring channels.
template <int N>
struct Factors {
  float mean[N], scale[N], beta[N];

  __device__ Factors(const BatchNormValues& values, unsigned channel) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      mean[i] = __ldg(values.mean + channel + i);
      scale[i] =
          __ldg(values.gamma + channel + i) / sqrtf(__ldg(values.variance + channel + i) + values.epsilon);
      beta[i] = __ldg(values.beta + channel + i);
    }
  }
};

// A thread stays with its N channels and strides over rows.
template <class T, int N>
__global__ void __launch_bounds__(block_size)
    batch_norm_kernel(const T* x, T* y, std::size_t rows, unsigned channels,
                      const __grid_constant__ BatchNormValues values, bool relu) {
  const unsigned groups = channels / N;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x / groups;  // rows
  const std::size_t thread = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread >= stride * groups) return;
  const unsigned channel = static_cast<unsigned>(thread % groups) * N;
  const Factors<N> factors(values, channel);

  for (std::size_t row = thread / groups; row < rows; row += stride) {
    const std::size_t at = row * channels + channel;
    float some[N];
    load(x + at, some);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float normal = (some[i] - factors.mean[i]) * factors.scale[i] + factors.beta[i];
      some[i] = relu && normal < 0.0F ? 0.0F : normal;
    }
    store(y + at, some);
  }
}

template <class T, int N>
cudaError_t start(const T* x, T* y, std::size_t rows, unsigned channels, const BatchNormValues& values,
                  bool relu, cudaStream_t stream) {
  const std::size_t groups = channels / N;
  const std::size_t wanted = (rows + rows_of_thread - 1) / rows_of_thread * groups;
  const std::size_t least = (groups + block_size - 1) / block_size;  // every channel has a thread
  unsigned blocks = blocks_for(wanted);
  if (blocks < least) blocks = static_cast<unsigned>(least);
  return launch_independent(batch_norm_kernel<T, N>, blocks, block_size, stream, x, y, rows, channels, values,
                            relu);
}

}  // namespace

cudaError_t batch_norm_inference(const void* x, void* y, Element element, std::size_t rows, int channels,
                                 const BatchNormValues& values, bool relu, cudaStream_t stream) {
  if (channels < 1) return cudaErrorInvalidValue;
  if (rows == 0) return cudaSuccess;
  const auto width = static_cast<unsigned>(channels);
  return with_element(element, [&]<class T>(ElementType<T>) {
    constexpr int pack = full_pack<T>;
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    const bool packs = width % pack == 0 && is_aligned(from, 0, pack) && is_aligned(to, 0, pack);
    return packs ? start<T, pack>(from, to, rows, width, values, relu, stream)
                 : start<T, 1>(from, to, rows, width, values, relu, stream);
  });
}

}  // namespace dtrain::kernels::cuda
