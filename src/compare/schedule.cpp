#include "compare/schedule.hpp"

#include <algorithm>

namespace dtrain::compare {

bool new_goes_first(int pair) { return pair % 2 == 1; }

std::vector<int> looks(int pairs) {
  std::vector<int> at;
  for (int next = least_pairs; next < pairs; next = (next + next / 2 + 1) / 2 * 2) at.push_back(next);
  if (!at.empty() && at.back() * 5 / 4 >= pairs) at.pop_back();  // too near to the end to be worth its price
  at.push_back(std::max(pairs, least_pairs));
  return at;
}

}  // namespace dtrain::compare
