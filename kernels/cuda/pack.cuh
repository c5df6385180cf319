#pragma once

// Elements in device memory and their values as floats in registers, several at a time.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/element.hpp"

namespace dtrain::kernels::cuda {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

// Rounds to nearest, ties to even; beyond the largest value is infinity.
__device__ inline void from_float(float x, float& to) { to = x; }
__device__ inline void from_float(float x, __half& to) { to = __float2half_rn(x); }
__device__ inline void from_float(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

// Infinity or NaN.
__device__ inline bool not_finite(float x) { return (__float_as_uint(x) & 0x7f800000U) == 0x7f800000U; }

// What one memory instruction moves.
template <int Bytes>
struct Word;
template <>
struct Word<2> {
  using type = unsigned short;
};
template <>
struct Word<4> {
  using type = unsigned;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};

// Both move Bytes; the address in global memory is a multiple of that.
template <int Bytes>
__device__ inline void move_in(void* to, const void* from) {
#ifdef __CUDACC__
  using Bits = typename Word<Bytes>::type;
  *static_cast<Bits*>(to) = *static_cast<const Bits*>(from);
#else
  simt::move_aligned(to, from, Bytes, from);
#endif
}

// The intrinsic, because the compiler takes plain wide stores apart when the values come from several blocks.
template <int Bytes>
__device__ inline void move_out(void* to, const void* from) {
#ifdef __CUDACC__
  using Bits = typename Word<Bytes>::type;
  __stwb(static_cast<Bits*>(to), *static_cast<const Bits*>(from));
#else
  simt::move_aligned(to, from, Bytes, to);
#endif
}

template <class T, int N>
inline constexpr int word_size = N * sizeof(T) > 16 ? 16 / static_cast<int>(sizeof(T)) : N;  // elements

// `from` is aligned to N elements or to 16 bytes, whichever is less.
template <int N, class T>
__device__ inline void load(const T* from, float (&values)[N]) {
  constexpr int size = word_size<T, N>;
#pragma unroll
  for (int first = 0; first < N; first += size) {
    alignas(16) T some[size];
    move_in<size * sizeof(T)>(some, from + first);
#pragma unroll
    for (int i = 0; i < size; ++i) values[first + i] = to_float(some[i]);
  }
}

template <int N, class T>
__device__ inline void store(T* to, const float (&values)[N]) {
  constexpr int size = word_size<T, N>;
#pragma unroll
  for (int first = 0; first < N; first += size) {
    alignas(16) T some[size];
#pragma unroll
    for (int i = 0; i < size; ++i) from_float(values[first + i], some[i]);
    move_out<size * sizeof(T)>(to + first, some);
  }
}

// Elements in 16 bytes.
template <class T>
inline constexpr int full_pack = 16 / static_cast<int>(sizeof(T));

template <class T>
struct ElementType {
  using type = T;
};

// Calls `work` with the ElementType of `element`.
template <class Work>
auto with_element(Element element, Work work) {
  switch (element) {
    case Element::bf16:
      return work(ElementType<__nv_bfloat16>());
    case Element::f16:
      return work(ElementType<__half>());
    case Element::f32:
      break;
  }
  return work(ElementType<float>());
}

}  // namespace dtrain::kernels::cuda
