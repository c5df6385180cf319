#include "compare/schedule.hpp"

#include <algorithm>

namespace dtrain::compare {

bool new_goes_first(int pair) { return pair % 2 == 1; }

std::vector<Look> looks(int pairs) {
  constexpr double for_early_looks = 0.2;
  std::vector<Look> at;
  for (int next = least_pairs; next + next / 2 < pairs; next *= 2) at.push_back({.pairs = next});
  for (Look& look : at) look.error_share = for_early_looks / static_cast<double>(at.size());
  at.push_back(
      {.pairs = std::max(pairs, least_pairs), .error_share = at.empty() ? 1.0 : 1.0 - for_early_looks});
  return at;
}

}  // namespace dtrain::compare
