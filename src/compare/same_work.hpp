#pragma once

#include <string>
#include <vector>

#include "report/result.hpp"

namespace dtrain::compare {

// One thing that two results do not share.
struct Difference {
  enum class Kind {
    work,        // other work or another machine: figures cannot be held against each other
    configured,  // another way of doing the same work: what a comparison is for
  };
  std::string key;
  std::string base;
  std::string next;
  Kind kind = Kind::work;
};

// Machine, device, model, parameters, batches, precision, optimizer, sync policy, data, and the losses of the
// first steps, within what reordered sums change in that precision. Then every other option of the
// configuration, and version and commit of the program.
std::vector<Difference> differences(const report::Result& base, const report::Result& next);

// The same of one configuration measured in both: replicas, batches, simulated or not, first losses.
std::vector<Difference> run_differences(const report::Result& base, const measure::RunSamples& base_run,
                                        const report::Result& next, const measure::RunSamples& next_run);

}  // namespace dtrain::compare
