#include "kernels/reduce.hpp"

#include <algorithm>
#include <array>

#include "kernels/dispatch.hpp"

namespace dtrain::kernels {

namespace {

constexpr std::size_t line = 16;  // floats in a cache line
constexpr std::size_t ahead =
    128;  // floats; far enough to hide a line that lies dirty in another core's cache
constexpr std::size_t block = 512;  // floats

// One cache line of every input at a time: sums stay in registers. Targets may be among the inputs.
template <std::size_t N, std::size_t Targets>
[[gnu::always_inline]] inline void sum_few(const std::array<float*, N>& from,
                                           const std::array<float*, Targets>& to, std::size_t count) {
  std::size_t i = 0;
  for (; i + line <= count; i += line) {
    float sum[line];
    for (std::size_t r = 0; r < N; ++r) __builtin_prefetch(from[r] + i + ahead);
    for (std::size_t j = 0; j < line; ++j) sum[j] = from[0][i + j];
    for (std::size_t r = 1; r < N; ++r) {
      for (std::size_t j = 0; j < line; ++j) sum[j] += from[r][i + j];
    }
    for (std::size_t r = 0; r < Targets; ++r) {
      for (std::size_t j = 0; j < line; ++j) to[r][i + j] = sum[j];
    }
  }
  for (; i < count; ++i) {
    float sum = from[0][i];
    for (std::size_t r = 1; r < N; ++r) sum += from[r][i];
    for (std::size_t r = 0; r < Targets; ++r) to[r][i] = sum;
  }
}

template <std::size_t N>
[[gnu::always_inline]] inline void sum_all(std::span<float* const> buffers, std::size_t offset,
                                           std::size_t count) {
  std::array<float*, N> at;
  for (std::size_t r = 0; r < N; ++r) at[r] = buffers[r] + offset;
  sum_few(at, at, count);
}

// Any number of buffers, a block at a time so that all of them stay in L1 or L2 from their reading to their
// writing.
[[gnu::always_inline]] inline void sum_many(std::span<float* const> buffers, std::span<float* const> targets,
                                            std::size_t offset, std::size_t count) {
  alignas(64) float sum[block];
  for (std::size_t end = offset + count; offset < end; offset += block) {
    const std::size_t n = std::min(block, end - offset);
    sum_few<1, 1>({buffers[0] + offset}, {sum}, n);
    std::size_t r = 1;
    for (; r + 3 <= buffers.size(); r += 3) {
      sum_few<4, 1>({sum, buffers[r] + offset, buffers[r + 1] + offset, buffers[r + 2] + offset}, {sum}, n);
    }
    for (; r < buffers.size(); ++r) sum_few<2, 1>({sum, buffers[r] + offset}, {sum}, n);
    for (float* target : targets) sum_few<1, 1>({sum}, {target + offset}, n);
  }
}

}  // namespace

DTRAIN_DISPATCH void sum_into_all(std::span<float* const> buffers, std::size_t offset, std::size_t count) {
  switch (buffers.size()) {
    case 0:
    case 1:
      return;
    case 2:
      return sum_all<2>(buffers, offset, count);
    case 3:
      return sum_all<3>(buffers, offset, count);
    case 4:
      return sum_all<4>(buffers, offset, count);
    case 8:
      return sum_all<8>(buffers, offset, count);
    default:
      return sum_many(buffers, buffers, offset, count);
  }
}

DTRAIN_DISPATCH void sum_into_one(std::span<float* const> buffers, std::size_t target, std::size_t offset,
                                  std::size_t count) {
  sum_many(buffers, buffers.subspan(target, 1), offset, count);
}

void sum_into_all_reference(std::span<float* const> buffers, std::size_t offset, std::size_t count) {
  for (std::size_t i = offset; i < offset + count; ++i) {
    float sum = buffers[0][i];
    for (std::size_t r = 1; r < buffers.size(); ++r) sum += buffers[r][i];
    for (float* buffer : buffers) buffer[i] = sum;
  }
}

}  // namespace dtrain::kernels
