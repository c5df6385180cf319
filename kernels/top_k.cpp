#include "kernels/top_k.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/dispatch.hpp"

// Exact selection without sorting. The bits of a magnitude, read as an integer, order as magnitudes do. Three
// passes fix the k-th largest one digit after the other, from histograms; a fourth takes what is larger, and
// as many equals as are still wanted, in order of index.

namespace dtrain::kernels {

namespace {

constexpr std::size_t block = 2048;  // elements that stay in L1 between two loops over them
constexpr std::uint32_t bins = 2048;

// Of the magnitude's 31 bits, those that a pass looks at.
struct Digit {
  std::uint32_t shift;
  std::uint32_t bits;
};
constexpr Digit first_digit{20, 11};
constexpr Digit other_digits[] = {{10, 10}, {0, 10}};

struct Search {
  std::uint32_t threshold = 0;  // as far as its bits are known; then the magnitude of the k-th largest
  std::size_t wanted = 0;       // how many of those at the threshold are among the k: the first ones
};

using Histogram = std::array<std::uint32_t, bins>;

inline std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU; }

DTRAIN_DISPATCH void add_loop(const float* __restrict values, float* __restrict residual, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) residual[i] += values[i];
}

// Whether any magnitude's bits from `shift` on lie in [low, high]: few blocks have one, once a digit is
// known.
DTRAIN_DISPATCH bool any_between(const float* values, std::size_t count, std::uint32_t shift,
                                 std::uint32_t low, std::uint32_t high) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    found |= static_cast<std::uint32_t>((magnitude(values[i]) >> shift) - low <= high - low);
  }
  return found != 0;
}

void choose_bin(Search& search, const Histogram& histogram, Digit digit) {
  std::uint32_t bin = (1U << digit.bits) - 1;
  for (; histogram[bin] < search.wanted; --bin) search.wanted -= histogram[bin];
  search.threshold |= bin << digit.shift;
}

// Neighbours are often of one bin, and would wait for each other: they count apart.
void find_first_digit(std::span<const float> values, std::span<float> residual, Search& search) {
  constexpr std::size_t apart = 4;
  std::array<Histogram, apart> histograms{};
  for (std::size_t first = 0; first < residual.size(); first += block) {
    const std::size_t count = std::min(block, residual.size() - first);
    float* at = residual.data() + first;
    add_loop(values.data() + first, at, count);
    std::size_t i = 0;
    for (; i + apart <= count; i += apart) {
      for (std::size_t j = 0; j < apart; ++j) ++histograms[j][magnitude(at[i + j]) >> first_digit.shift];
    }
    for (; i < count; ++i) ++histograms[0][magnitude(at[i]) >> first_digit.shift];
  }
  for (std::size_t j = 1; j < apart; ++j) {
    for (std::uint32_t bin = 0; bin < bins; ++bin) histograms[0][bin] += histograms[j][bin];
  }
  choose_bin(search, histograms[0], first_digit);
}

void find_digit(std::span<const float> residual, Search& search, Digit digit) {
  Histogram histogram{};
  const std::uint32_t known_shift = digit.shift + digit.bits;
  const std::uint32_t known = search.threshold >> known_shift;
  for (std::size_t first = 0; first < residual.size(); first += block) {
    const std::size_t count = std::min(block, residual.size() - first);
    const float* at = residual.data() + first;
    if (!any_between(at, count, known_shift, known, known)) continue;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bits = magnitude(at[i]);
      if (bits >> known_shift == known) ++histogram[(bits >> digit.shift) & ((1U << digit.bits) - 1)];
    }
  }
  choose_bin(search, histogram, digit);
}

void take(std::span<float> residual, Search search, std::span<Pair> pairs) {
  auto next = pairs.begin();
  for (std::size_t first = 0; next != pairs.end(); first += block) {
    const std::size_t count = std::min(block, residual.size() - first);
    float* at = residual.data() + first;
    if (!any_between(at, count, 0, search.threshold, 0x7fffffffU)) continue;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bits = magnitude(at[i]);
      if (bits < search.threshold) continue;
      if (bits == search.threshold) {
        if (search.wanted == 0) continue;
        --search.wanted;
      }
      *next++ = {static_cast<std::uint32_t>(first + i), std::exchange(at[i], 0.0F)};
    }
  }
}

}  // namespace

void top_k(std::span<const float> values, std::span<float> residual, std::span<Pair> pairs) {
  if (pairs.empty()) return add_loop(values.data(), residual.data(), values.size());
  Search search{.threshold = 0, .wanted = pairs.size()};
  find_first_digit(values, residual, search);
  for (const Digit digit : other_digits) find_digit(residual, search, digit);
  take(residual, search, pairs);
}

void scatter_add(std::span<const Pair> pairs, std::span<float> values) {
  for (const Pair& pair : pairs) values[pair.index] += pair.value;
}

void top_k_reference(std::span<const float> values, std::span<float> residual, std::span<Pair> pairs) {
  for (std::size_t i = 0; i < values.size(); ++i) residual[i] += values[i];
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return magnitude(residual[a]) > magnitude(residual[b]);
  });
  order.resize(pairs.size());
  std::sort(order.begin(), order.end());
  std::ranges::transform(order, pairs.begin(), [&](std::uint32_t index) {
    return Pair{index, std::exchange(residual[index], 0.0F)};
  });
}

}  // namespace dtrain::kernels
