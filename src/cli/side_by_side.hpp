#pragma once

#include <string>
#include <vector>

#include "cli/job.hpp"
#include "config/options.hpp"

namespace dtrain::cli {

inline constexpr const char* all_strategies = "all";  // of --strategy

struct SideBySide {
  std::vector<std::string> strategies;
  std::vector<std::string> left_out;  // "tpu: does not run on --device cpu"
};

// Which strategies can do what the options ask for, on this device and in this job. The plain loop is no
// matter of theirs: it is every run's base.
SideBySide choose_strategies(const config::Options& options, const Job& job, const std::string& device);

// The strategy that says how this process finds its job.
std::string leading_strategy(const config::Options& options);

}  // namespace dtrain::cli
