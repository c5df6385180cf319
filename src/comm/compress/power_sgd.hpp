#pragma once

#include <cstdint>
#include <memory>

#include "comm/compressor.hpp"

namespace dtrain::comm {

// A bucket as a matrix, sent as two factors of low rank (Vogels, Karimireddy, Jaggi 2019): one step of
// subspace iteration from where the last one ended, P = M Q summed and made orthonormal, Q = M^T P summed,
// and P Q^T in place of the sum. What a process's own part of that lacks of its own gradient is added to the
// next step's.
//
// A bucket of n elements holds several layers and knows nothing of their shapes. It is taken as rows of
// ceil(sqrt(n)) elements, the last one filled up with zeros: of all shapes, a square one has the fewest
// elements in its factors, rank x (rows + columns). Where these were no fewer than n, the bucket goes whole.
std::unique_ptr<Compressor> make_power_sgd_compressor(int rank, std::uint64_t seed);

}  // namespace dtrain::comm
