#pragma once

// The functions of CUDA's device language that kernels use. Included by simt.hpp.

inline void __syncthreads(const simt::Where& where = simt::Where::current()) {
  simt::meet_block(true, where);
}
inline int __syncthreads_count(int vote, const simt::Where& where = simt::Where::current()) {
  return static_cast<int>(simt::meet_block(vote != 0, where));
}
inline int __syncthreads_or(int vote, const simt::Where& where = simt::Where::current()) {
  return simt::meet_block(vote != 0, where) > 0 ? 1 : 0;
}
inline int __syncthreads_and(int vote, const simt::Where& where = simt::Where::current()) {
  return simt::meet_block(vote == 0, where) == 0 ? 1 : 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffU, const simt::Where& where = simt::Where::current()) {
  simt::meet_warp(simt::Meeting::warp_barrier, mask, 0, simt::lane(), where);
}

inline unsigned __ballot_sync(unsigned mask, int vote, const simt::Where& where = simt::Where::current()) {
  return static_cast<unsigned>(
      simt::meet_warp(simt::Meeting::ballot, mask, vote != 0 ? 1 : 0, simt::lane(), where));
}
inline int __any_sync(unsigned mask, int vote, const simt::Where& where = simt::Where::current()) {
  return __ballot_sync(mask, vote, where) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int vote, const simt::Where& where = simt::Where::current()) {
  return __ballot_sync(mask, vote, where) == mask ? 1 : 0;
}

// A warp falls into sections of `width` lanes; a source outside its section is the lane itself.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              const simt::Where& where = simt::Where::current()) {
  const auto section = static_cast<unsigned>(width);
  const unsigned first = simt::lane() / section * section;
  return simt::shuffle(mask, value, first + static_cast<unsigned>(source) % section, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  const simt::Where& where = simt::Where::current()) {
  const auto section = static_cast<unsigned>(width);
  const unsigned source = simt::lane() ^ static_cast<unsigned>(bits);
  const bool inside = source / section <= simt::lane() / section;
  return simt::shuffle(mask, value, inside ? source : simt::lane(), where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const simt::Where& where = simt::Where::current()) {
  const bool inside = simt::lane() % static_cast<unsigned>(width) >= delta;
  return simt::shuffle(mask, value, inside ? simt::lane() - delta : simt::lane(), where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const simt::Where& where = simt::Where::current()) {
  const auto section = static_cast<unsigned>(width);
  const bool inside = simt::lane() % section + delta < section;
  return simt::shuffle(mask, value, inside ? simt::lane() + delta : simt::lane(), where);
}

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*at).fetch_add(value, std::memory_order_relaxed);
}
template <class T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*at).fetch_or(value, std::memory_order_relaxed);
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*at).exchange(value, std::memory_order_relaxed);
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*at).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  T before = *at;
  while (before < value) {
    const T seen = atomicCAS(at, before, value);
    if (seen == before) break;
    before = seen;
  }
  return before;
}

// Blocks run one after the other, and barriers order the threads of one.
inline void __threadfence() {}

template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcg(const T* at) {
  return *at;
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
