#pragma once

#include <memory>

#include "comm/compressor.hpp"
#include "kernels/half.hpp"

namespace dtrain::comm {

// Half the bytes of an all-reduce: every process sums a shard of the buckets, which it is sent in 16 bits,
// and sends the sum in 16 bits to all. Sums are taken in fp32 and in rank order. Both roundings are made good
// in the next step: the first where the gradient was made, the second where the shard is summed. A sum beyond
// the format's largest number is sent as that, and the rest later.
std::unique_ptr<Compressor> make_half_compressor(kernels::HalfFormat format);

}  // namespace dtrain::comm
