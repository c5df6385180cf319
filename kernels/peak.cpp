#include "kernels/peak.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/units.hpp"

namespace dtrain::kernels {

namespace {

// Time this thread really ran: the roof is the core's, whoever else wants the core at the moment.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

using Vector8 = float __attribute__((vector_size(32)));
using Vector16 = float __attribute__((vector_size(64)));

constexpr long repeats = 20'000;

// The empty assembly keeps the loop from being folded; constant indices keep the accumulators in registers.
template <class Vector>
inline __attribute__((always_inline)) void hold_in_register(Vector& vector) {
#if defined(__x86_64__)
  asm volatile("" : "+v"(vector));
#else
  asm volatile("" : "+w"(vector));
#endif
}

template <class Vector, std::size_t... chain>
inline __attribute__((always_inline)) double run_chains(std::index_sequence<chain...>) {
  Vector sums[] = {(Vector{} + static_cast<float>(chain))...};
  const Vector factor = Vector{} + 0.999F;
  const Vector addend = Vector{} + 0.001F;
  const double begin = thread_seconds();
  for (long r = 0; r < repeats; ++r) {
    ((sums[chain] = sums[chain] * factor + addend), ...);
    (hold_in_register(sums[chain]), ...);
  }
  const double elapsed = thread_seconds() - begin;
  constexpr double lanes = sizeof(Vector) / sizeof(float);
  return 2.0 * lanes * sizeof...(chain) * repeats / elapsed;
}

// Enough independent chains to hide the latency of a multiply-add on two ports.
using Chains = std::make_index_sequence<12>;

#if defined(__x86_64__)
__attribute__((target("arch=x86-64-v4"))) double run_avx512() { return run_chains<Vector16>(Chains{}); }
__attribute__((target("arch=x86-64-v3"))) double run_avx2() { return run_chains<Vector8>(Chains{}); }
bool has_avx512() { return __builtin_cpu_supports("x86-64-v4") != 0; }
bool has_avx2() { return __builtin_cpu_supports("x86-64-v3") != 0; }
#endif

double run_once() {
#if defined(__x86_64__)
  if (has_avx512()) return run_avx512();
  if (has_avx2()) return run_avx2();
#endif
  using Vector4 = float __attribute__((vector_size(16)));
  return run_chains<Vector4>(Chains{});
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
