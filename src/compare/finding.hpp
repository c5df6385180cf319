#pragma once

#include <memory>

#include "compare/comparison.hpp"
#include "compare/metric.hpp"
#include "compare/pairing.hpp"
#include "stats/evidence.hpp"

namespace dtrain::compare {

// A finding that waits for its verdict, with the evidence for it; none where there can be no verdict.
struct OpenFinding {
  Finding finding;
  std::unique_ptr<stats::Evidence> evidence;
  double may_feign = 0.0;  // as of stats::Question
  double may_hide = 0.0;
};

// None where neither side has anything to be measured.
std::optional<OpenFinding> gather(const Side& base, const Side& next, const Configuration& configuration,
                                  const Registry<Metric>::Entry& metric, const Config& config);

}  // namespace dtrain::compare
