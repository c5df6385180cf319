#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dtrain::history {

// A series cut into levels.
struct Segmentation {
  std::vector<std::size_t> bounds;  // 0, the first value of each later level, the number of values
  std::vector<double> levels;
  double residual = 0.0;     // sum of squares around the levels; above 0
  double explained = 0.0;    // what the levels take from the sum around the mean
  double correlation = 0.0;  // lag-1, of what is left, corrected for the fit; 0 to 0.9

  std::size_t cuts() const { return levels.size() - 1; }
};

// The cuts that leave least, no level shorter than `least` values (Bellman 1961: exact, by dynamic
// programming). The series has room for them: n >= (cuts + 1) least.
Segmentation best_segmentation(std::span<const double> values, std::size_t cuts, std::size_t least);

// Cut at these bounds, which ascend from 0 to the number of values.
Segmentation segmentation_at(std::span<const double> values, std::vector<std::size_t> bounds);

double residual_of_line(std::span<const double> values);  // least squares

}  // namespace dtrain::history
