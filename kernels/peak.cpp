#include "kernels/peak.hpp"

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/units.hpp"

namespace dtrain::kernels {

namespace {

using Vector8 = float __attribute__((vector_size(32)));
using Vector16 = float __attribute__((vector_size(64)));

constexpr int chains = 12;  // enough to hide the latency of a multiply-add on two ports
constexpr long repeats = 20'000;

// The empty assembly keeps every accumulator in a register and the loop from being folded.
template <class Vector>
inline __attribute__((always_inline)) double run_chains() {
  Vector sums[chains];
  for (int i = 0; i < chains; ++i) sums[i] = Vector{} + static_cast<float>(i);
  const Vector factor = Vector{} + 0.999F;
  const Vector addend = Vector{} + 0.001F;
  const TimePoint begin = Clock::now();
  for (long r = 0; r < repeats; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) {
      sums[i] = sums[i] * factor + addend;
#if defined(__x86_64__)
      asm volatile("" : "+v"(sums[i]));
#else
      asm volatile("" : "+w"(sums[i]));
#endif
    }
  }
  const double elapsed = seconds(Clock::now() - begin);
  constexpr double lanes = sizeof(Vector) / sizeof(float);
  return 2.0 * lanes * chains * repeats / elapsed;
}

#if defined(__x86_64__)
__attribute__((target("arch=x86-64-v4"))) double run_avx512() { return run_chains<Vector16>(); }
__attribute__((target("arch=x86-64-v3"))) double run_avx2() { return run_chains<Vector8>(); }
bool has_avx512() { return __builtin_cpu_supports("x86-64-v4") != 0; }
bool has_avx2() { return __builtin_cpu_supports("x86-64-v3") != 0; }
#endif

double run_once() {
#if defined(__x86_64__)
  if (has_avx512()) return run_avx512();
  if (has_avx2()) return run_avx2();
#endif
  using Vector4 = float __attribute__((vector_size(16)));
  return run_chains<Vector4>();
}

}  // namespace

double measure_peak_flops() {
  double best = 0.0;
  for (int i = 0; i < 10; ++i) best = std::max(best, run_once());
  return best;
}

double measure_copy_bandwidth() {
  constexpr std::size_t bytes = 64 * mib;
  AlignedBuffer<std::byte> from(bytes);
  AlignedBuffer<std::byte> to(bytes);
  double best = 0.0;
  for (int i = 0; i < 5; ++i) {
    const TimePoint begin = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" : : "r"(to.data()) : "memory");
    best = std::max(best, static_cast<double>(bytes) / seconds(Clock::now() - begin));
  }
  return best;
}

const char* instruction_set() {
#if defined(__x86_64__)
  if (has_avx512()) return "avx512";
  if (has_avx2()) return "avx2";
#endif
  return "baseline";
}

}  // namespace dtrain::kernels
