#pragma once

#include <string>
#include <vector>

#include "compare/comparison.hpp"

namespace dtrain::compare {

// One configuration as both sides measured it: a run of each result.
struct Configuration {
  std::string id;
  std::vector<std::size_t> base;  // index of the run, by result
  std::vector<std::size_t> next;
};

struct Pairing {
  std::vector<Configuration> pairs;
  std::vector<std::string> missing;  // configurations that only the base has, or not every result of a side
  std::vector<std::string> added;    // that only the new side has
};

// Runs are matched by name. Where the sides share no name but the plain loop's, because they trained under
// another strategy or with another tool, by base and number of replicas, if each side has one such run.
// Each result has a run.
Pairing pair_up(const Side& base, const Side& next);

}  // namespace dtrain::compare
