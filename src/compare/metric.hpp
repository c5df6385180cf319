#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "report/result.hpp"

namespace dtrain::compare {

// Something that two results can be compared by.
struct Metric {
  std::string unit;
  bool more_is_better = true;
  // Values of rounds, which vary by chance; else there is one value, which does not.
  bool of_rounds = true;
  // Follows the machine's speed, so that the calibration kernel tells the machine's changes from the
  // program's.
  bool follows_machine = true;
  // Of one run of a result; empty where it has none. Positive, or 0 where there was nothing.
  std::function<std::vector<double>(const report::Result&, std::size_t run)> values;
  // Below least_part of the base's step, it counts as this share on both sides: twice next to nothing is next
  // to nothing.
  bool part_of_step = false;
};

inline constexpr double least_part = 0.01;

// images_per_second, efficiency, step_ms, input_ms, communication_ms, straggler_ms (these three are parts of
// the step), replica_peak_bytes, bytes_sent, accuracy.
const Registry<Metric>& metrics();

}  // namespace dtrain::compare
