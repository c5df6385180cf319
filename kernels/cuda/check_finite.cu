#include "kernels/cuda/check_finite.hpp"

#include "kernels/cuda/for_each.cuh"

namespace dtrain::kernels::cuda {

namespace {

struct CheckFinite {
  static constexpr int width = 4;
  const float* values;
  std::int32_t* flag;

  template <int N>
  __device__ void at(std::size_t first) const {
    float some[N];
    load(values + first, some);
    bool bad = false;
#pragma unroll
    for (int i = 0; i < N; ++i) bad = bad || not_finite(some[i]);
    if (bad) atomicOr(flag, 1);
  }
};

}  // namespace

cudaError_t check_finite(const float* values, std::size_t size, std::int32_t* flag, cudaStream_t stream) {
  return for_each(size, stream, CheckFinite{values, flag}, {values});
}

}  // namespace dtrain::kernels::cuda
