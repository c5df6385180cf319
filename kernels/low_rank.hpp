#pragma once

#include <cstddef>
#include <span>

namespace dtrain::kernels {

// Products of a matrix M with its factors of low rank. M lies row by row with `columns` in each; its last row
// may be shorter, as if zeros followed. A factor is `rank` vectors, one after the other: those of P have as
// many elements as M has rows, those of Q as many as it has columns, and
//
//     M = P Q^T:  M[i][c] = sum over j of P[j][i] Q[j][c].
//
// `rank` is that of the spans: q.size() / columns.

// P = M Q
void multiply(std::span<const float> m, std::size_t columns, std::span<const float> q, std::span<float> p);
// Q = M^T P
void multiply_transposed(std::span<const float> m, std::size_t columns, std::span<const float> p,
                         std::span<float> q);
// M = P Q^T, the same bits on every processor.
void expand_product(std::span<const float> p, std::span<const float> q, std::size_t columns,
                    std::span<float> m);
// M -= P Q^T
void subtract_product(std::span<const float> p, std::span<const float> q, std::size_t columns,
                      std::span<float> m);

// Makes the vectors (of `length` elements, one after the other) orthogonal and of length 1, each to the ones
// before it. One that depends on those before it, up to rounding, becomes 0. The same bits on every
// processor. Vectors hold finite values.
void orthogonalise(std::span<float> vectors, std::size_t length);

// In double precision, what tests hold the fast ones against.
void multiply_reference(std::span<const float> m, std::size_t columns, std::span<const float> q,
                        std::span<float> p);
void multiply_transposed_reference(std::span<const float> m, std::size_t columns, std::span<const float> p,
                                   std::span<float> q);
void expand_product_reference(std::span<const float> p, std::span<const float> q, std::size_t columns,
                              std::span<float> m);

}  // namespace dtrain::kernels
