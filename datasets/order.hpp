#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace dtrain::datasets {

// The order in which an epoch's images come: a function of (size, seed, epoch, buffer) alone. A shuffle
// buffer of B holds B records; each image out is drawn evenly from the buffer and replaced by the next
// record, as tf.data does. buffer 0 keeps file order; buffer >= size is a full shuffle.
std::vector<std::uint32_t> epoch_order(std::size_t size, std::uint64_t seed, int epoch, int buffer);

}  // namespace dtrain::datasets
