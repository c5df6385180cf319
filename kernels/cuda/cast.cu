#include "kernels/cuda/cast.hpp"

#include "kernels/cuda/for_each.cuh"

namespace dtrain::kernels::cuda {

namespace {

template <class From, class To>
struct Cast {
  static constexpr int width = sizeof(From) == 4 && sizeof(To) == 4 ? 4 : 8;
  const From* __restrict__ from;
  To* __restrict__ to;

  template <int N>
  __device__ void at(std::size_t first) const {
    float values[N];
    load(from + first, values);
    store(to + first, values);
  }
};

template <class From, class To>
cudaError_t cast(const From* from, To* to, std::size_t size, cudaStream_t stream) {
  return for_each(size, stream, Cast<From, To>{from, to}, {from, to});
}

}  // namespace

cudaError_t cast_from_float(const float* from, void* to, Element element, std::size_t size,
                            cudaStream_t stream) {
  return with_element(element,
                      [&]<class T>(ElementType<T>) { return cast(from, static_cast<T*>(to), size, stream); });
}

cudaError_t cast_to_float(const void* from, Element element, float* to, std::size_t size,
                          cudaStream_t stream) {
  return with_element(
      element, [&]<class T>(ElementType<T>) { return cast(static_cast<const T*>(from), to, size, stream); });
}

}  // namespace dtrain::kernels::cuda
