#pragma once

#include <optional>

#include "model/cut.hpp"

namespace dtrain::model {

// Channels of a layer that lie on one side of a cut are a multiple of this: blocks that primitives work on.
inline constexpr int split_quantum = 16;

// The layer whose output is all that layers from `layer` on read of those before; none if there are several,
// or the image is read.
std::optional<int> crossing(const Model& model, int layer);

// Output channels of a convolution or dense layer.
int channels_of(const Model& model, int layer);

// Behind the ReLU and max pool that follow a layer, channel by channel, and are all that read it.
int split_end(const Model& model, int layer);

// Whether its channels may be computed by two stages.
bool can_be_split(const Model& model, int layer);

}  // namespace dtrain::model
