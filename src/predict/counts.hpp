#pragma once

#include <string>
#include <vector>

namespace dtrain::predict {

// The N of "8", "1,2,64", "1..4" or "1..4,64", as bench takes them; ascending, each once. Usage error, naming
// the flag, for anything else, for N beyond largest_replicas, and for more of them than a sweep may have.
std::vector<int> parse_counts(const std::string& text, const std::string& flag);

}  // namespace dtrain::predict
