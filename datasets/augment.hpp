#pragma once

#include <cstdint>

#include "kernels/normalise.hpp"

namespace dtrain::datasets {

// Random crop with a border of 4 and horizontal flip, by (seed, epoch, image) alone: which rank or step the
// image falls to does not matter.
kernels::Crop augmentation(std::uint64_t seed, int epoch, std::uint32_t image);

}  // namespace dtrain::datasets
