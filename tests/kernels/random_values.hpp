#pragma once

#include <vector>

#include "base/random.hpp"

inline std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  dtrain::Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}
