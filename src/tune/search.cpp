#include "tune/search.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace dtrain::tune {

namespace {

constexpr double spare = 1.15;  // stretches of some candidates take longer than the default's
constexpr int fewest_pairs_to_judge = 6;

// A candidate that is still in, with all its ratios to the default.
struct Entrant {
  int candidate = default_candidate;
  std::vector<double> ratios;
  double score() const { return stats::median(ratios); }
};

class Search {
 public:
  Search(int available, Seconds budget, Trials& trials)
      : available_(available), budget_(budget.count()), trials_(&trials) {}

  Outcome run() {
    plan();
    std::vector<Entrant> entrants(static_cast<std::size_t>(outcome_.schedule.candidates));
    for (std::size_t i = 0; i < entrants.size(); ++i) entrants[i].candidate = static_cast<int>(i) + 1;
    for (int rounds = outcome_.schedule.first_rounds; entrants.size() > 1; rounds *= 2) {
      if (!halve(entrants, rounds)) break;
    }
    if (!entrants.empty()) outcome_.rival = entrants.front().candidate;
    judge_rival();
    outcome_.seconds = trials_->elapsed();
    return std::move(outcome_);
  }

 private:
  void plan() {
    measure(default_candidate);
    outcome_.stretch_seconds = trials_->elapsed();
    const double each = spare * outcome_.stretch_seconds;
    const int affordable = static_cast<int>(std::min((budget_ - outcome_.stretch_seconds) / each, 1e6));
    if (const auto schedule = plan_search(available_, affordable)) {
      outcome_.schedule = *schedule;
      return;
    }
    const double enough =
        std::ceil(outcome_.stretch_seconds + 1.1 * each * (least_stretches(available_) + 1));
    throw usage_error(
        fmt::format("--tune {:g}s is too short: a stretch takes {:.2g} s here, and the smallest search {} of "
                    "them",
                    budget_, outcome_.stretch_seconds, least_stretches(available_)),
        fmt::format("give it --tune {:.0f}s or more", enough));
  }

  double measure(int candidate) {
    ++outcome_.stretches;
    return trials_->measure(candidate);
  }

  // Whether a stretch that begins now, and as many others as are kept back for later, are likely to end in
  // time.
  bool time_for_one(int kept_back) const {
    const double now = trials_->elapsed();
    const double each = std::max(outcome_.stretch_seconds, now / outcome_.stretches);
    return now + (1 + kept_back) * each <= budget_;
  }

  // False where time ran out, so that no other rung is to follow.
  bool halve(std::vector<Entrant>& entrants, int rounds) {
    Rung& rung = outcome_.rungs.emplace_back();
    rung.rounds = rounds;
    rung.standings.emplace_back();
    for (const Entrant& entrant : entrants) rung.standings.push_back({.candidate = entrant.candidate});
    for (int round = 0; round < rounds && !rung.cut_short; ++round) {
      rung.cut_short = !take_round(rung, round);
    }
    take_ratios(rung, entrants);
    keep_better_half(rung, entrants);
    trials_->rung_ended(rung);
    return !rung.cut_short;
  }

  bool take_round(Rung& rung, int round) {
    const std::size_t count = rung.standings.size();
    for (std::size_t i = 0; i < count; ++i) {
      Standing& standing = rung.standings[round % 2 == 0 ? i : count - 1 - i];
      if (!standing.failure.empty()) continue;
      if (!time_for_one(2 * fewest_pairs)) return false;
      take_turn(standing);
    }
    return true;
  }

  void take_turn(Standing& standing) {
    try {
      standing.rates.push_back(measure(standing.candidate));
    } catch (const JobEnded&) {
      throw;
    } catch (const Error& error) {
      if (error.category() != ErrorCategory::run || standing.candidate == default_candidate) throw;
      standing.failure = error.what();
    }
  }

  // Rounds that were cut short give none: some candidates would be held against another moment.
  static void take_ratios(const Rung& rung, std::vector<Entrant>& entrants) {
    std::size_t complete = static_cast<std::size_t>(rung.rounds);
    for (const Standing& standing : rung.standings) {
      if (standing.failure.empty()) complete = std::min(complete, standing.rates.size());
    }
    for (std::size_t i = 0; i < entrants.size(); ++i) {
      const Standing& standing = rung.standings[i + 1];
      if (!standing.failure.empty()) continue;
      for (std::size_t round = 0; round < complete; ++round) {
        entrants[i].ratios.push_back(standing.rates[round] / rung.standings.front().rates[round]);
      }
    }
  }

  // Best first. Without a single round of theirs, candidates stay as they are.
  static void keep_better_half(Rung& rung, std::vector<Entrant>& entrants) {
    const std::size_t kept = static_cast<std::size_t>(survivors(static_cast<int>(entrants.size())));
    std::vector<Entrant> ranked;
    for (std::size_t i = 0; i < entrants.size(); ++i) {
      Standing& standing = rung.standings[i + 1];
      if (!entrants[i].ratios.empty()) standing.gain = entrants[i].score() - 1.0;
      if (standing.failure.empty()) ranked.push_back(std::move(entrants[i]));
    }
    std::ranges::stable_sort(ranked,
                             [](const Entrant& a, const Entrant& b) { return a.score() > b.score(); });
    if (ranked.size() > kept) ranked.resize(kept);
    rung.standings.front().kept = true;
    for (Standing& standing : rung.standings) {
      standing.kept =
          standing.kept || std::ranges::find(ranked, standing.candidate, &Entrant::candidate) != ranked.end();
    }
    entrants = std::move(ranked);
  }

  void judge_rival() {
    if (outcome_.rival == default_candidate) {
      outcome_.why = "none of the other candidates could be measured";
      return;
    }
    take_pairs();
    std::vector<double> gains;
    for (const Pair& pair : outcome_.pairs) gains.push_back(pair.rival / pair.base - 1.0);
    outcome_.gain = stats::bootstrap_median(gains);
    if (std::ssize(gains) < fewest_pairs_to_judge) {
      outcome_.why +=
          outcome_.why.empty()
              ? fmt::format("only {} pairs fitted into the time, too few to judge by", gains.size())
              : "";
    } else if (outcome_.gain.low > 0.0) {
      outcome_.winner = outcome_.rival;
      outcome_.why = "the interval of its gain lies above zero, in rounds that did not choose it";
    } else {
      outcome_.why = "the best candidate's gain cannot be told from none";
    }
  }

  void take_pairs() {
    for (int i = 0; i < outcome_.schedule.pairs; ++i) {
      Standing base;
      Standing rival{.candidate = outcome_.rival};
      for (Standing* standing : {i % 2 == 0 ? &base : &rival, i % 2 == 0 ? &rival : &base}) {
        if (!time_for_one(0)) return;
        take_turn(*standing);
        if (standing->failure.empty()) continue;
        outcome_.why = "the best candidate failed: " + standing->failure;
        outcome_.pairs.clear();
        return;
      }
      outcome_.pairs.push_back({base.rates.front(), rival.rates.front()});
    }
  }

  int available_;
  double budget_;
  Trials* trials_;
  Outcome outcome_;
};

}  // namespace

Outcome search(int available, Seconds budget, Trials& trials) {
  return Search(available, budget, trials).run();
}

}  // namespace dtrain::tune
