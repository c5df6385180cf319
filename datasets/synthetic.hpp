#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datasets/dataset.hpp"

namespace dtrain::datasets {

// Images that can be learnt and not guessed: one of five shapes in one of two families of colour makes the
// class. Place, size, angle, shade, background and noise vary, so that neither the mean colour nor any one
// pixel tells it. Integer arithmetic: the same bytes on every machine, by (seed, split, index) alone.
enum class Split { train, test };

void draw_image(std::uint64_t seed, Split split, std::size_t index,
                std::span<std::uint8_t, pixels_per_image> out);
// Every ten records in a row hold every class once, in an order of their own.
int synthetic_label(std::uint64_t seed, Split split, std::size_t index);
const std::vector<std::string>& synthetic_class_names();

struct SyntheticConfig {
  Split split = Split::train;
  std::size_t size = 50'000;
  std::size_t distinct = 8'192;  // record i repeats record i % distinct, which bounds memory to 24 MiB
  std::uint64_t seed = 0;
};

// Draws each image when it is first asked for, in a few microseconds.
std::shared_ptr<const Dataset> make_synthetic(const SyntheticConfig& config);

}  // namespace dtrain::datasets
