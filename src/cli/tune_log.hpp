#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/tune_candidates.hpp"
#include "tune/search.hpp"

namespace dtrain::cli {

// What a search was asked for, beside its outcome.
struct TuneRequest {
  std::string command;
  std::string run;  // that candidates are measured by: "mirrored-4"
  double budget_seconds = 0.0;
  std::uint64_t seed = 0;
  std::set<std::string> held;  // flags that were given and therefore stay
};

// tuning.json, `dtrain.tuning/1`: every candidate and all that was measured of it (docs/tuning.md).
std::string tuning_log(const TuneRequest& request, const std::vector<TuneCandidate>& candidates,
                       const tune::Outcome& outcome);

}  // namespace dtrain::cli
