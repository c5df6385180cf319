#pragma once

#include <vector>

#include "model/part.hpp"

namespace dtrain::model {

// Output channels that fall to each rank: shares differ by one at most, larger ones first.
std::vector<int> channel_shares(int channels, int ranks);

// What rank `rank` of `ranks` computes where every convolution and dense layer is split by output channels,
// and with it what follows channel by channel. All channels are gathered as late as possible: before a layer
// that reads all of them, or the loss, and once for all that read them. Where split layers read what has
// parameters before it, the gradient is summed over ranks.
//
// A layer with fewer channels than ranks stays whole: every rank computes the same, and rank 0 gives its
// parameters to the whole. Parameters come in the whole's order.
Part split_channels(const Model& whole, int rank, int ranks);

// How a model splits over so many ranks.
struct SplitCounts {
  int split_layers = 0;  // convolutions and dense layers
  int whole_layers = 0;
  std::vector<Shape> gathered;  // all channels, one for each gather
  std::vector<Shape> summed;    // one for each sum of gradients
  double repeated_share = 0.0;  // of the operations a rank counts, those that every other rank repeats
};
SplitCounts count_split(const Model& whole, int ranks);

}  // namespace dtrain::model
