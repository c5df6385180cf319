#include "kernels/cuda/elementwise.hpp"

#include "kernels/cuda/for_each.cuh"

namespace dtrain::kernels::cuda {

namespace {

struct MaskByOutput {
  __device__ float operator()(float y, float dy) const { return y > 0.0F ? dy : 0.0F; }
};

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// result = function(a, b). Arrays may be the same one.
template <class T, class Function>
struct Combine {
  static constexpr int width = full_pack<T>;
  const T* a;
  const T* b;
  T* result;

  template <int N>
  __device__ void at(std::size_t first) const {
    float left[N], right[N];
    load(a + first, left);
    load(b + first, right);
#pragma unroll
    for (int i = 0; i < N; ++i) left[i] = Function()(left[i], right[i]);
    store(result + first, left);
  }
};

template <class Function>
cudaError_t combine(const void* a, const void* b, void* result, Element element, std::size_t size,
                    cudaStream_t stream) {
  return with_element(element, [&]<class T>(ElementType<T>) {
    const Combine<T, Function> work{static_cast<const T*>(a), static_cast<const T*>(b),
                                    static_cast<T*>(result)};
    return for_each(size, stream, work, {work.a, work.b, work.result});
  });
}

}  // namespace

cudaError_t relu_backward(const void* y, const void* dy, void* dx, Element element, std::size_t size,
                          cudaStream_t stream) {
  return combine<MaskByOutput>(y, dy, dx, element, size, stream);
}

cudaError_t add(const void* a, const void* b, void* sum, Element element, std::size_t size,
                cudaStream_t stream) {
  return combine<Sum>(a, b, sum, element, size, stream);
}

cudaError_t accumulate(const void* from, void* into, Element element, std::size_t size, cudaStream_t stream) {
  return combine<Sum>(into, from, into, element, size, stream);
}

}  // namespace dtrain::kernels::cuda
