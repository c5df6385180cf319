#include "measure/calibration.hpp"

#include <algorithm>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/units.hpp"

namespace dtrain::measure {

namespace {

// The same work in builds with sanitizers.
#define DTRAIN_UNCHECKED gnu::no_sanitize("address", "undefined", "thread")

constexpr int chain_steps = 2'600'000;
constexpr int array_passes = 2'800;
constexpr int array_floats = 4096;  // 16 KiB

// Instructions spelled out: the flags of the build should matter little, because two builds of the program
// are compared by this time.
#if defined(__x86_64__)
[[gnu::target("avx2,fma"), gnu::noinline, DTRAIN_UNCHECKED]] double work_fma() {
  const __m256d factor = _mm256_set1_pd(0.999);
  const __m256d term = _mm256_set1_pd(0.001);
  __m256d p = term;
  __m256d q = factor;
  for (int i = 0; i < chain_steps; ++i) {
    p = _mm256_fmadd_pd(p, factor, term);
    q = _mm256_fmadd_pd(q, factor, term);
  }
  alignas(32) float array[array_floats] = {};
  const __m256 half = _mm256_set1_ps(0.5F);
  for (int pass = 0; pass < array_passes; ++pass) {
    for (int i = 0; i < array_floats; i += 8) {
      _mm256_store_ps(array + i, _mm256_fmadd_ps(_mm256_load_ps(array + i), half, half));
    }
  }
  return _mm256_cvtsd_f64(p) + _mm256_cvtsd_f64(q) + array[0] + array[array_floats - 1];
}
#endif

[[gnu::noinline, DTRAIN_UNCHECKED]] double work_plain() {
  double p = 0.001;
  double q = 0.999;
  for (int i = 0; i < chain_steps / 2; ++i) {
    p = p * 0.999 + 0.001;
    q = q * 0.999 + 0.001;
  }
  float array[array_floats] = {};
  for (int pass = 0; pass < array_passes / 8; ++pass) {
    for (float& value : array) value = value * 0.5F + 0.5F;
  }
  return p + q + array[0] + array[array_floats - 1];
}

double fixed_work() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return work_fma();
#endif
  return work_plain();
}

volatile double sink;

}  // namespace

double time_calibration_kernel() {
  const TimePoint begin = Clock::now();
  sink = fixed_work();
  return seconds(Clock::now() - begin);
}

double calibrate(int repeats) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < std::max(repeats, 1); ++i) fastest = std::min(fastest, time_calibration_kernel());
  return fastest;
}

double time_stamp() {
  constexpr int batches = 5;
  constexpr int stamps = 2000;
  double fastest = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < batches; ++batch) {
    const std::int64_t begin = now_ns();
    std::int64_t last = begin;
    for (int i = 0; i < stamps; ++i) last = now_ns();
    fastest = std::min(fastest, static_cast<double>(last - begin) * 1e-9 / stamps);
  }
  return fastest;
}

}  // namespace dtrain::measure
