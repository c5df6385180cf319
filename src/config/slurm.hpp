#pragma once

#include <string>
#include <vector>

namespace dtrain::config {

// The nodes of a list as SLURM writes it: "node[01-03,7],gpu1". At most `limit` of them. Usage error where it
// is malformed.
std::vector<std::string> expand_nodes(const std::string& list, std::size_t limit = 65536);

// The counts of "2(x3),1": 2, 2, 2, 1.
std::vector<int> expand_counts(const std::string& list);

}  // namespace dtrain::config
