#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dtrain::comm {

// The ranks that gave the same colour as `rank` did, ascending, and its place among them.
struct Part {
  std::vector<int> members;
  int rank = 0;
};

inline Part part_of(std::span<const double> colours, int rank) {
  Part part;
  for (int other = 0; other < static_cast<int>(colours.size()); ++other) {
    if (colours[static_cast<std::size_t>(other)] != colours[static_cast<std::size_t>(rank)]) continue;
    if (other == rank) part.rank = static_cast<int>(part.members.size());
    part.members.push_back(other);
  }
  return part;
}

}  // namespace dtrain::comm
