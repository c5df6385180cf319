#include "tune/search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/random.hpp"

namespace dtrain::tune {
namespace {

// Candidates with known rates, noise and a clock that only measuring moves.
class FakeTrials final : public Trials {
 public:
  std::vector<double> rates;  // by candidate
  double noise = 0.0;         // relative, of a stretch
  double drift = 0.0;         // relative, a stretch
  double stretch_seconds = 0.1;
  std::set<int> broken;
  std::function<void(int candidate)> before = {};

  FakeTrials(std::vector<double> true_rates, double relative_noise, std::uint64_t seed)
      : rates(std::move(true_rates)), noise(relative_noise), random_(seed) {}

  double measure(int candidate) override {
    if (before) before(candidate);
    measured.push_back(candidate);
    now_ += stretch_seconds * (1.0 + 0.1 * random_.uniform());
    if (broken.contains(candidate)) throw run_error("it breaks", "");
    const double machine = 1.0 + drift * static_cast<double>(measured.size());
    return rates.at(static_cast<std::size_t>(candidate)) * machine * (1.0 + noise * random_.normal());
  }
  double elapsed() const override { return now_; }

  std::vector<int> measured;

 private:
  Random random_;
  double now_ = 0.0;
};

// The default at 100, others from 20 % slower to 15 % faster.
std::vector<double> spread_rates(int candidates, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> rates{100.0};
  for (int i = 0; i < candidates; ++i) rates.push_back(100.0 * (0.8 + 0.35 * random.uniform()));
  return rates;
}

Outcome search_all(FakeTrials& trials, double budget) {
  return search(static_cast<int>(trials.rates.size()) - 1, Seconds{budget}, trials);
}

TEST(Search, FindsTheBestWithinThreePercentInNearlyAllCases) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    FakeTrials trials(spread_rates(24, seed), 0.03, seed + 1000);
    const Outcome outcome = search_all(trials, 60.0);
    const double best = std::ranges::max(trials.rates);
    found += trials.rates.at(static_cast<std::size_t>(outcome.winner)) >= 0.97 * best ? 1 : 0;
  }
  EXPECT_GE(found, 95);
}

TEST(Search, StaysWithTheDefaultWhereNothingDiffers) {
  int kept = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    FakeTrials trials(std::vector<double>(25, 100.0), 0.03, seed);
    kept += search_all(trials, 60.0).winner == default_candidate ? 1 : 0;
  }
  EXPECT_GE(kept, 380);
}

TEST(Search, StaysWithTheDefaultWhereAllOthersAreSlower) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<double> rates(13, 97.0);
    rates.front() = 100.0;
    FakeTrials trials(rates, 0.02, seed);
    const Outcome outcome = search_all(trials, 60.0);
    EXPECT_EQ(outcome.winner, default_candidate);
    EXPECT_LT(outcome.gain.low, 0.0);
  }
}

TEST(Search, SaysTheGainAsItIsAndNotAsLuckMadeIt) {
  std::vector<double> errors;
  int covered = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    FakeTrials trials(std::vector<double>(25, 104.0), 0.05, seed);
    trials.rates.front() = 100.0;
    const Outcome outcome = search_all(trials, 120.0);
    errors.push_back(outcome.gain.median - 0.04);
    covered += outcome.gain.low <= 0.04 && 0.04 <= outcome.gain.high ? 1 : 0;
  }
  EXPECT_NEAR(stats::median(errors), 0.0, 0.005);
  EXPECT_GE(covered, 90);
}

TEST(Search, IsNotFooledByADriftOfTheMachine) {
  int kept = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    FakeTrials trials(std::vector<double>(13, 100.0), 0.01, seed);
    trials.drift = -0.001;  // a fifth slower at the end
    kept += search_all(trials, 30.0).winner == default_candidate ? 1 : 0;
  }
  EXPECT_GE(kept, 47);
}

TEST(Search, KeepsItsBudget) {
  for (const double budget : {6.0, 10.0, 60.0, 300.0}) {
    FakeTrials trials(spread_rates(24, 1), 0.02, 2);
    const Outcome outcome = search_all(trials, budget);
    EXPECT_LE(outcome.seconds, budget + 0.02);  // stretches differ by a tenth
    EXPECT_DOUBLE_EQ(outcome.seconds, trials.elapsed());
    EXPECT_EQ(outcome.stretches, std::ssize(trials.measured));
  }
}

TEST(Search, KeepsItsBudgetWhereTheFirstStretchWasQuick) {
  FakeTrials trials(spread_rates(24, 1), 0.02, 2);
  trials.before = [&](int) { trials.stretch_seconds = trials.measured.empty() ? 0.1 : 0.3; };
  const Outcome outcome = search_all(trials, 20.0);
  EXPECT_LE(outcome.seconds, 20.1);
  EXPECT_TRUE(outcome.rungs.back().cut_short);
  EXPECT_GE(outcome.pairs.size(), 6u);
}

TEST(Search, SaysWhichBudgetWouldDo) {
  FakeTrials trials(spread_rates(24, 1), 0.02, 2);
  std::string advice;
  try {
    search_all(trials, 1.0);
    FAIL() << "a second is not enough";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_EQ(trials.measured.size(), 1u);
    advice = error.advice();
  }
  const double enough = std::stod(advice.substr(advice.find("--tune ") + 7));
  FakeTrials again(spread_rates(24, 1), 0.02, 2);
  EXPECT_NO_THROW(search_all(again, enough));
}

TEST(Search, NeverMeasuresWhoIsOutAndKeepsTheBetterHalf) {
  FakeTrials trials(spread_rates(12, 3), 0.02, 4);
  const Outcome outcome = search_all(trials, 60.0);
  ASSERT_GE(outcome.rungs.size(), 3u);
  std::map<int, int> expected{{default_candidate, 1}};  // the first stretch, for its time
  for (std::size_t i = 0; i < outcome.rungs.size(); ++i) {
    const Rung& rung = outcome.rungs[i];
    EXPECT_EQ(rung.rounds, outcome.schedule.first_rounds << i);
    double worst_kept = 1.0;
    double best_left = -1.0;
    std::set<int> kept;
    for (const Standing& standing : rung.standings) {
      EXPECT_EQ(std::ssize(standing.rates), rung.rounds);
      expected[standing.candidate] += rung.rounds;
      if (standing.kept) kept.insert(standing.candidate);
      if (standing.candidate == default_candidate) continue;
      (standing.kept ? worst_kept : best_left) =
          standing.kept ? std::min(worst_kept, standing.gain) : std::max(best_left, standing.gain);
    }
    EXPECT_GE(worst_kept, best_left);
    EXPECT_EQ(std::ssize(kept), survivors(static_cast<int>(rung.standings.size()) - 1) + 1);
    if (i + 1 == outcome.rungs.size()) continue;
    std::set<int> next;
    for (const Standing& standing : outcome.rungs[i + 1].standings) next.insert(standing.candidate);
    EXPECT_EQ(next, kept);
  }
  expected[default_candidate] += outcome.schedule.pairs;
  expected[outcome.rival] += outcome.schedule.pairs;
  std::map<int, int> measured;
  for (const int candidate : trials.measured) ++measured[candidate];
  EXPECT_EQ(measured, expected);
}

TEST(Search, TakesTurnsForwardsAndBackwards) {
  FakeTrials trials(spread_rates(4, 3), 0.0, 4);
  const Outcome outcome = search_all(trials, 6.0);
  const std::vector<int> first(trials.measured.begin() + 1, trials.measured.begin() + 11);
  EXPECT_EQ(first, (std::vector<int>{0, 1, 2, 3, 4, 4, 3, 2, 1, 0}));
  const std::vector<int> last(trials.measured.end() - 4, trials.measured.end());
  ASSERT_EQ(outcome.pairs.size() % 2, 0u);
  EXPECT_EQ(last, (std::vector<int>{0, outcome.rival, outcome.rival, 0}));
}

TEST(Search, LeavesOutWhoCannotBeMeasured) {
  FakeTrials trials({100.0, 90.0, 120.0, 110.0, 95.0}, 0.0, 4);
  trials.broken = {2};
  const Outcome outcome = search_all(trials, 20.0);
  EXPECT_EQ(outcome.winner, 3);
  EXPECT_NEAR(outcome.gain.median, 0.1, 1e-9);
  EXPECT_EQ(std::ranges::count(trials.measured, 2), 1);
  const auto& standings = outcome.rungs.front().standings;
  EXPECT_EQ(std::ranges::find(standings, 2, &Standing::candidate)->failure, "it breaks");
}

TEST(Search, StaysWithTheDefaultWhereNobodyElseCanBeMeasured) {
  FakeTrials trials({100.0, 120.0, 120.0}, 0.0, 4);
  trials.broken = {1, 2};
  const Outcome outcome = search_all(trials, 20.0);
  EXPECT_EQ(outcome.winner, default_candidate);
  EXPECT_TRUE(outcome.pairs.empty());
  FakeTrials default_broken({100.0, 120.0}, 0.0, 4);
  default_broken.broken = {0};
  EXPECT_THROW(search_all(default_broken, 20.0), Error);
}

TEST(Search, HoldsASingleCandidateAgainstTheDefaultAtOnce) {
  FakeTrials trials({100.0, 103.0}, 0.01, 4);
  const Outcome outcome = search_all(trials, 20.0);
  EXPECT_TRUE(outcome.rungs.empty());
  EXPECT_EQ(outcome.winner, 1);
  EXPECT_EQ(outcome.gain.rounds, 40);
  EXPECT_NEAR(outcome.gain.median, 0.03, 0.01);
}

}  // namespace
}  // namespace dtrain::tune
