#pragma once

#include <string>
#include <vector>

#include "compare/comparison.hpp"
#include "synthetic.hpp"

namespace dtrain::compare {

inline const Bench calm{.noise = {.scatter = 0.005, .between_runs = 0.0}};

inline report::Result base_result() { return make_result(1, calm); }

inline Comparison against_base(const report::Result& next, const Config& config = {}) {
  return compare({"base", {base_result()}}, {"new", {next}}, config);
}

inline std::vector<std::string> work_keys(const Comparison& comparison) {
  std::vector<std::string> keys;
  for (const auto& difference : comparison.differences) {
    if (difference.kind == Difference::Kind::work) keys.push_back(difference.key);
  }
  return keys;
}

inline void make_slower(report::Result& result, double factor) {
  for (auto& run : result.samples.runs) {
    for (auto& round : run.rounds) round.seconds *= factor;
  }
}

struct Change {
  const char* key;
  void (*make)(report::Result&);
};

}  // namespace dtrain::compare
