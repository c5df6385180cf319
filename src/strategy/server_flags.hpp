#pragma once

#include <string>
#include <vector>

#include "config/options.hpp"

namespace dtrain::strategy {

// Flags of parameter servers that were given, with their values: "--staleness 2".
std::vector<std::string> server_flags(const config::Options& options);

}  // namespace dtrain::strategy
