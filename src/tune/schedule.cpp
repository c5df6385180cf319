#include "tune/schedule.hpp"

#include <algorithm>

namespace dtrain::tune {

namespace {

constexpr int fewest_candidates = 4;
constexpr int first_rounds = 2;
constexpr int most_first_rounds = 16;
constexpr int most_pairs = 40;

}  // namespace

int halving_stretches(const Schedule& schedule) {
  int stretches = 0;
  int rounds = schedule.first_rounds;
  for (int left = schedule.candidates; left > 1; left = survivors(left)) {
    stretches += (left + 1) * rounds;
    rounds *= 2;
  }
  return stretches;
}

int all_stretches(const Schedule& schedule) { return halving_stretches(schedule) + 2 * schedule.pairs; }

int least_stretches(int available) {
  return all_stretches({std::min(available, fewest_candidates), first_rounds, fewest_pairs});
}

std::optional<Schedule> plan_search(int available, int stretches) {
  Schedule schedule{available, first_rounds, fewest_pairs};
  while (all_stretches(schedule) > stretches && schedule.candidates > fewest_candidates)
    --schedule.candidates;
  if (all_stretches(schedule) > stretches) return std::nullopt;
  for (Schedule longer = schedule; schedule.candidates == available;) {
    longer.first_rounds *= 2;
    longer.pairs = std::min(2 * longer.pairs, most_pairs);
    if (longer.first_rounds > most_first_rounds || all_stretches(longer) > stretches) break;
    schedule = longer;
  }
  schedule.pairs =
      std::min((stretches - halving_stretches(schedule)) / 4 * 2, most_pairs);  // even: there and back
  return schedule;
}

}  // namespace dtrain::tune
