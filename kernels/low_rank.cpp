#include "kernels/low_rank.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/dispatch.hpp"

// Compiled without fused multiply and add, which not every processor has: what is computed from the same
// numbers on several hosts must come out as the same bits.

namespace dtrain::kernels {

namespace {

constexpr std::size_t lanes = 16;    // sums that an inner product keeps apart
constexpr std::size_t together = 4;  // vectors, or rows, that share a pass over memory

struct Shape {
  std::size_t rows;
  std::size_t columns;
  std::size_t size;

  std::size_t length_of(std::size_t row) const { return std::min(columns, size - row * columns); }
};

Shape shape_of(std::size_t size, std::size_t columns) {
  return {(size + columns - 1) / columns, columns, size};
}

// Inner products of one row with N vectors that are `apart` from each other.
template <std::size_t N>
[[gnu::always_inline]] inline void products(const float* row, std::size_t count, const float* vectors,
                                            std::size_t apart, float* to, std::size_t to_apart) {
  float sums[N][lanes] = {};
  std::size_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    for (std::size_t j = 0; j < N; ++j) {
      for (std::size_t l = 0; l < lanes; ++l) sums[j][l] += row[c + l] * vectors[j * apart + c + l];
    }
  }
  for (std::size_t j = 0; j < N; ++j) {
    for (std::size_t l = 0; c + l < count; ++l) sums[j][l] += row[c + l] * vectors[j * apart + c + l];
    float sum = 0.0F;
    for (std::size_t l = 0; l < lanes; ++l) sum += sums[j][l];
    to[j * to_apart] = sum;
  }
}

DTRAIN_DISPATCH void multiply_loop(const float* m, const Shape& shape, const float* q, std::size_t rank,
                                   float* p) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const float* at = m + row * shape.columns;
    const std::size_t count = shape.length_of(row);
    std::size_t j = 0;
    for (; j + together <= rank; j += together) {
      products<together>(at, count, q + j * shape.columns, shape.columns, p + j * shape.rows + row,
                         shape.rows);
    }
    for (; j < rank; ++j) {
      products<1>(at, count, q + j * shape.columns, shape.columns, p + j * shape.rows + row, shape.rows);
    }
  }
}

// to += the sum over N rows of factor x row. Rows are `apart`.
template <std::size_t N>
[[gnu::always_inline]] inline void add_rows(const float* __restrict rows, std::size_t apart,
                                            std::size_t count, const float* factors, float* __restrict to) {
  float factor[N];
  for (std::size_t r = 0; r < N; ++r) factor[r] = factors[r];
  for (std::size_t c = 0; c < count; ++c) {
    float sum = to[c];
    for (std::size_t r = 0; r < N; ++r) sum += factor[r] * rows[r * apart + c];
    to[c] = sum;
  }
}

DTRAIN_DISPATCH void multiply_transposed_loop(const float* m, const Shape& shape, const float* p,
                                              std::size_t rank, float* q) {
  std::fill_n(q, rank * shape.columns, 0.0F);
  const std::size_t whole = shape.size / shape.columns;  // rows
  std::size_t row = 0;
  for (; row + together <= whole; row += together) {
    for (std::size_t j = 0; j < rank; ++j) {
      add_rows<together>(m + row * shape.columns, shape.columns, shape.columns, p + j * shape.rows + row,
                         q + j * shape.columns);
    }
  }
  for (; row < shape.rows; ++row) {
    for (std::size_t j = 0; j < rank; ++j) {
      add_rows<1>(m + row * shape.columns, shape.columns, shape.length_of(row), p + j * shape.rows + row,
                  q + j * shape.columns);
    }
  }
}

// m += sign x P Q^T
DTRAIN_DISPATCH void add_product_loop(const float* p, const float* q, std::size_t rank, const Shape& shape,
                                      float sign, float* m) {
  float factors[together];
  for (std::size_t row = 0; row < shape.rows; ++row) {
    float* at = m + row * shape.columns;
    const std::size_t count = shape.length_of(row);
    for (std::size_t j = 0; j < rank; j += together) {
      const std::size_t few = std::min(together, rank - j);
      for (std::size_t i = 0; i < few; ++i) factors[i] = sign * p[(j + i) * shape.rows + row];
      const float* vectors = q + j * shape.columns;
      if (few == together) {
        add_rows<together>(vectors, shape.columns, count, factors, at);
      } else {
        for (std::size_t i = 0; i < few; ++i) {
          add_rows<1>(vectors + i * shape.columns, 0, count, factors + i, at);
        }
      }
    }
  }
}

double inner_product(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t chains = 4;
  double sums[chains] = {};
  std::size_t i = 0;
  for (; i + chains <= a.size(); i += chains) {
    for (std::size_t l = 0; l < chains; ++l) sums[l] += static_cast<double>(a[i + l]) * b[i + l];
  }
  for (; i < a.size(); ++i) sums[0] += static_cast<double>(a[i]) * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void subtract_projection(std::span<const float> direction, std::span<float> from) {
  const auto length = static_cast<float>(inner_product(direction, from));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= length * direction[i];
}

std::pair<std::size_t, std::size_t> rows_and_rank(std::size_t size, std::size_t columns,
                                                  std::span<const float> q) {
  return {(size + columns - 1) / columns, q.size() / columns};
}

}  // namespace

void multiply(std::span<const float> m, std::size_t columns, std::span<const float> q, std::span<float> p) {
  multiply_loop(m.data(), shape_of(m.size(), columns), q.data(), q.size() / columns, p.data());
}

void multiply_transposed(std::span<const float> m, std::size_t columns, std::span<const float> p,
                         std::span<float> q) {
  multiply_transposed_loop(m.data(), shape_of(m.size(), columns), p.data(), q.size() / columns, q.data());
}

void expand_product(std::span<const float> p, std::span<const float> q, std::size_t columns,
                    std::span<float> m) {
  std::ranges::fill(m, 0.0F);
  add_product_loop(p.data(), q.data(), q.size() / columns, shape_of(m.size(), columns), 1.0F, m.data());
}

void subtract_product(std::span<const float> p, std::span<const float> q, std::size_t columns,
                      std::span<float> m) {
  add_product_loop(p.data(), q.data(), q.size() / columns, shape_of(m.size(), columns), -1.0F, m.data());
}

void orthogonalise(std::span<float> vectors, std::size_t length) {
  constexpr double rounding = 1e-5;  // of a vector, where sums of floats made it
  for (std::size_t end = length; end <= vectors.size(); end += length) {
    const auto own = vectors.subspan(end - length, length);
    const double before = inner_product(own, own);
    // Twice: what the first pass leaves of a nearly dependent vector is not orthogonal yet.
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t other = 0; other + length < end; other += length) {
        subtract_projection(vectors.subspan(other, length), own);
      }
    }
    const double after = inner_product(own, own);
    const bool dependent = after <= rounding * rounding * before;
    const double scale = dependent ? 0.0 : 1.0 / std::sqrt(after);
    for (float& value : own) value = static_cast<float>(value * scale);
  }
}

void multiply_reference(std::span<const float> m, std::size_t columns, std::span<const float> q,
                        std::span<float> p) {
  const auto [rows, rank] = rows_and_rank(m.size(), columns, q);
  for (std::size_t j = 0; j < rank; ++j) {
    for (std::size_t row = 0; row < rows; ++row) {
      double sum = 0.0;
      for (std::size_t c = 0; c < columns && row * columns + c < m.size(); ++c) {
        sum += static_cast<double>(m[row * columns + c]) * q[j * columns + c];
      }
      p[j * rows + row] = static_cast<float>(sum);
    }
  }
}

void multiply_transposed_reference(std::span<const float> m, std::size_t columns, std::span<const float> p,
                                   std::span<float> q) {
  const auto [rows, rank] = rows_and_rank(m.size(), columns, q);
  for (std::size_t j = 0; j < rank; ++j) {
    for (std::size_t c = 0; c < columns; ++c) {
      double sum = 0.0;
      for (std::size_t row = 0; row < rows && row * columns + c < m.size(); ++row) {
        sum += static_cast<double>(m[row * columns + c]) * p[j * rows + row];
      }
      q[j * columns + c] = static_cast<float>(sum);
    }
  }
}

void expand_product_reference(std::span<const float> p, std::span<const float> q, std::size_t columns,
                              std::span<float> m) {
  const auto [rows, rank] = rows_and_rank(m.size(), columns, q);
  for (std::size_t i = 0; i < m.size(); ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < rank; ++j) {
      sum += static_cast<double>(p[j * rows + i / columns]) * q[j * columns + i % columns];
    }
    m[i] = static_cast<float>(sum);
  }
}

}  // namespace dtrain::kernels
