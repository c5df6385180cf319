#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dtrain::config {

// What a device was doing, as its driver tells. 0 = it does not tell.
struct DeviceCondition {
  int device = 0;
  double clock_mhz = 0.0;
  double highest_clock_mhz = 0.0;
  double celsius = 0.0;
  double watts = 0.0;
  double watts_limit = 0.0;
  std::vector<std::string> slowed_by;  // what holds its clock down, in words; not that it rests
  int other_processes = 0;             // that compute on it
  std::size_t other_bytes = 0;         // of its memory that they hold
};

}  // namespace dtrain::config
