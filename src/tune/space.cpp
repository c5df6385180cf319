#include "tune/space.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace dtrain::tune {

namespace {

// The next combination, counting like an odometer; false after the last.
bool advance(Choices& choices, const std::vector<int>& sizes) {
  for (std::size_t i = choices.size(); i-- > 0;) {
    if (++choices[i] < sizes[i]) return true;
    choices[i] = 0;
  }
  return false;
}

auto changes(const Choices& choices) {
  return std::ranges::count_if(choices, [](int choice) { return choice != 0; });
}

void shuffle(std::vector<Choices>& candidates, Random& random) {
  for (std::size_t left = candidates.size(); left > 1; --left) {
    std::swap(candidates[left - 1], candidates[random.below(left)]);
  }
}

}  // namespace

std::vector<Choices> arrange(const std::vector<int>& sizes, std::uint64_t seed,
                             const std::function<bool(const Choices&)>& allowed) {
  Choices choices(sizes.size(), 0);
  std::vector<Choices> arranged{choices};
  std::vector<Choices> others;
  while (advance(choices, sizes)) {
    if (allowed(choices)) others.push_back(choices);
  }
  Random random(seed);
  shuffle(others, random);
  std::ranges::stable_partition(others, [](const Choices& c) { return changes(c) == 1; });
  arranged.insert(arranged.end(), others.begin(), others.end());
  return arranged;
}

}  // namespace dtrain::tune
