#pragma once

#include <fmt/format.h>

#include "base/units.hpp"

namespace dtrain::cluster {

// As a user would write it on the command line: "20 s", "1.5 s", "200 ms".
inline std::string time_text(Seconds time) {
  return time.count() < 1.0 ? fmt::format("{:.3g} ms", time.count() * 1e3)
                            : fmt::format("{:.4g} s", time.count());
}

}  // namespace dtrain::cluster
