#pragma once

#include <string>
#include <vector>

#include "report/result.hpp"

namespace dtrain::history {

// What a run did, on what: figures of equal works may be drawn as one line. The names are the same for every
// run, in the same order.
struct Trait {
  std::string name;
  std::string value;
  bool ours_only = false;  // another tool's result does not tell it
};
using Work = std::vector<Trait>;

Work work_of(const report::Result& result, std::size_t run);
const std::string& value_of(const Work& work, const std::string& name);

// "batch 64 instead of 128". Files are told by their checksum where both works have one, by their name
// otherwise. Across tools, what only ours tells is left out.
std::vector<std::string> differences(const Work& wanted, const Work& found, bool across_tools);

// "dtrain", or the name that another tool gives itself.
std::string tool_of(const report::Result& result);

}  // namespace dtrain::history
