#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace dtrain::tune {

// A candidate: which value it takes in every dimension. 0 is the value as things are.
using Choices = std::vector<int>;

// Every combination of choices that is `allowed`, the default (zeros) first. Then come those that change one
// dimension, then all others, each group in an order that the seed decides: whoever can afford the first few
// only has touched every dimension. `sizes` holds how many values each dimension has, at least 1.
std::vector<Choices> arrange(const std::vector<int>& sizes, std::uint64_t seed,
                             const std::function<bool(const Choices&)>& allowed);

}  // namespace dtrain::tune
