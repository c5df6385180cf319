#include "kernels/max_pool.hpp"

#include <bit>
#include <cstring>
#include <limits>

#include "kernels/dispatch.hpp"

namespace dtrain::kernels {

namespace {

// One output element's window, as offsets of its rows.
struct Window {
  const float* row0;
  const float* row1;
};

// The common case, size 2: branch-free so that it vectorises over `inner` (and over pixels where inner is 8
// or 16).
template <int fixed_inner>
inline __attribute__((always_inline)) void forward_pair(Window in, int inner_count, bool relu,
                                                        float* __restrict y,
                                                        std::uint8_t* __restrict winner) {
  const int inner = fixed_inner > 0 ? fixed_inner : inner_count;
  for (int c = 0; c < inner; ++c) {
    const float a = in.row0[c];
    const float b = in.row0[inner + c];
    const float d = in.row1[c];
    const float e = in.row1[inner + c];
    const float top = b > a ? b : a;
    const float bottom = e > d ? e : d;
    const std::int32_t top_index = b > a ? 1 : 0;
    const std::int32_t bottom_index = e > d ? 3 : 2;
    const float best = bottom > top ? bottom : top;
    const std::int32_t index = bottom > top ? bottom_index : top_index;
    const bool none = relu && !(best > 0.0F);
    y[c] = none ? 0.0F : best;
    winner[c] = static_cast<std::uint8_t>(none ? pool_nothing : index);
  }
}

template <int fixed_inner>
inline __attribute__((always_inline)) void forward_2x2(const PoolShape& s, bool relu, const float* x,
                                                       float* y, std::uint8_t* winner) {
  const int inner = fixed_inner > 0 ? fixed_inner : s.inner;
  const std::size_t row = static_cast<std::size_t>(s.width) * inner;
  for (std::size_t o = 0; o < s.outer; ++o) {
    const float* plane = x + o * s.height * row;
    for (int h = 0; h < s.out_height(); ++h) {
      const float* row0 = plane + static_cast<std::size_t>(2 * h) * row;
      for (int w = 0; w < s.out_width(); ++w) {
        forward_pair<fixed_inner>({row0 + 2 * w * inner, row0 + row + 2 * w * inner}, inner, relu, y, winner);
        y += inner;
        winner += inner;
      }
    }
  }
}

// Where one output element's gradient may go: the four positions of its window.
struct Targets {
  float* position[4];
};

using Bits8 = std::int32_t __attribute__((vector_size(32), aligned(4), may_alias));
using Bytes8 = std::uint8_t __attribute__((vector_size(8), aligned(1), may_alias));

// Masks instead of branches: winners are as good as random, and a wrong guess costs more than all the
// arithmetic.
inline __attribute__((always_inline)) void scatter_eight(const float* dy, const std::uint8_t* winner,
                                                         Targets to) {
  const Bits8 index = __builtin_convertvector(*reinterpret_cast<const Bytes8*>(winner), Bits8);
  const Bits8 gradient = *reinterpret_cast<const Bits8*>(dy);
  *reinterpret_cast<Bits8*>(to.position[0]) = gradient & (index == 0);
  *reinterpret_cast<Bits8*>(to.position[1]) = gradient & (index == 1);
  *reinterpret_cast<Bits8*>(to.position[2]) = gradient & (index == 2);
  *reinterpret_cast<Bits8*>(to.position[3]) = gradient & (index == 3);
}

inline __attribute__((always_inline)) void scatter_one(float dy, std::uint8_t winner, Targets to) {
  const auto bits = std::bit_cast<std::uint32_t>(dy);
  for (std::uint32_t k = 0; k < 4; ++k) {
    *to.position[k] = std::bit_cast<float>(bits & (0U - static_cast<std::uint32_t>(winner == k)));
  }
}

inline __attribute__((always_inline)) void scatter(const float* dy, const std::uint8_t* winner, Targets to,
                                                   int inner) {
  int c = 0;
  const auto at = [&](int offset) {
    return Targets{
        {to.position[0] + offset, to.position[1] + offset, to.position[2] + offset, to.position[3] + offset}};
  };
  for (; c + 8 <= inner; c += 8) scatter_eight(dy + c, winner + c, at(c));
  for (; c < inner; ++c) scatter_one(dy[c], winner[c], at(c));
}

template <int fixed_inner>
inline __attribute__((always_inline)) void backward_2x2(const PoolShape& s, const float* dy,
                                                        const std::uint8_t* winner, float* dx) {
  const int inner = fixed_inner > 0 ? fixed_inner : s.inner;
  const std::size_t row = static_cast<std::size_t>(s.width) * inner;
  const std::size_t covered = static_cast<std::size_t>(s.out_width()) * 2 * inner;
  for (std::size_t o = 0; o < s.outer; ++o) {
    float* plane = dx + o * s.height * row;
    for (int h = 0; h < s.out_height(); ++h) {
      float* row0 = plane + static_cast<std::size_t>(2 * h) * row;
      float* row1 = row0 + row;
      for (int w = 0; w < s.out_width(); ++w) {
        float* left0 = row0 + 2 * w * inner;
        float* left1 = row1 + 2 * w * inner;
        scatter(dy, winner, {{left0, left0 + inner, left1, left1 + inner}}, inner);
        dy += inner;
        winner += inner;
      }
      std::memset(row0 + covered, 0, (row - covered) * sizeof(float));
      std::memset(row1 + covered, 0, (row - covered) * sizeof(float));
    }
    const std::size_t rows_covered = static_cast<std::size_t>(s.out_height()) * 2;
    std::memset(plane + rows_covered * row, 0, (s.height - rows_covered) * row * sizeof(float));
  }
}

DTRAIN_DISPATCH void forward_pairs(const PoolShape& s, bool relu, const float* x, float* y,
                                   std::uint8_t* winner) {
  switch (s.inner) {
    case 8:
      return forward_2x2<8>(s, relu, x, y, winner);
    case 16:
      return forward_2x2<16>(s, relu, x, y, winner);
    default:
      return forward_2x2<0>(s, relu, x, y, winner);
  }
}

DTRAIN_DISPATCH void backward_pairs(const PoolShape& s, const float* dy, const std::uint8_t* winner,
                                    float* dx) {
  switch (s.inner) {
    case 8:
      return backward_2x2<8>(s, dy, winner, dx);
    case 16:
      return backward_2x2<16>(s, dy, winner, dx);
    default:
      return backward_2x2<0>(s, dy, winner, dx);
  }
}

std::size_t input_index(const PoolShape& s, std::size_t o, int h, int w, int c) {
  return ((o * s.height + h) * s.width + w) * s.inner + c;
}

}  // namespace

void max_pool_forward(const PoolShape& shape, bool relu, const float* x, float* y, std::uint8_t* winner) {
  if (shape.size == 2) return forward_pairs(shape, relu, x, y, winner);
  max_pool_forward_reference(shape, relu, x, y, winner);
}

void max_pool_backward(const PoolShape& shape, const float* dy, const std::uint8_t* winner, float* dx) {
  if (shape.size == 2) return backward_pairs(shape, dy, winner, dx);
  max_pool_backward_reference(shape, dy, winner, dx);
}

void max_pool_forward_reference(const PoolShape& s, bool relu, const float* x, float* y,
                                std::uint8_t* winner) {
  std::size_t out = 0;
  for (std::size_t o = 0; o < s.outer; ++o) {
    for (int h = 0; h < s.out_height(); ++h) {
      for (int w = 0; w < s.out_width(); ++w) {
        for (int c = 0; c < s.inner; ++c, ++out) {
          float best = -std::numeric_limits<float>::infinity();
          int index = 0;
          for (int k = 0; k < s.size * s.size; ++k) {
            const float value = x[input_index(s, o, h * s.size + k / s.size, w * s.size + k % s.size, c)];
            if (value > best) {
              best = value;
              index = k;
            }
          }
          const bool none = relu && !(best > 0.0F);
          y[out] = none ? 0.0F : best;
          winner[out] = none ? pool_nothing : static_cast<std::uint8_t>(index);
        }
      }
    }
  }
}

void max_pool_backward_reference(const PoolShape& s, const float* dy, const std::uint8_t* winner, float* dx) {
  std::memset(dx, 0, s.outer * s.height * s.width * s.inner * sizeof(float));
  std::size_t out = 0;
  for (std::size_t o = 0; o < s.outer; ++o) {
    for (int h = 0; h < s.out_height(); ++h) {
      for (int w = 0; w < s.out_width(); ++w) {
        for (int c = 0; c < s.inner; ++c, ++out) {
          const int k = winner[out];
          if (k == pool_nothing) continue;
          dx[input_index(s, o, h * s.size + k / s.size, w * s.size + k % s.size, c)] = dy[out];
        }
      }
    }
  }
}

}  // namespace dtrain::kernels
