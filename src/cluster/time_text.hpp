#pragma once

#include <fmt/format.h>

#include "base/units.hpp"

namespace dtrain::cluster {

// As a user would write it on the command line: "20 s", "1.5 s", "200 ms".
inline std::string time_text(Seconds time) {
  const double value = time.count();
  if (value < 1.0) return fmt::format("{:.3g} ms", value * 1e3);
  return value < 100.0 ? fmt::format("{:.3g} s", value) : fmt::format("{:.0f} s", value);
}

}  // namespace dtrain::cluster
