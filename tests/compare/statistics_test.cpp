// The verdicts as statistics: how often they are wrong, and how often they find what is there, on series with
// every kind of noise, drawn from seeds.

#include <gtest/gtest.h>

#include "compare/schedule.hpp"
#include "synthetic.hpp"

namespace dtrain::compare {
namespace {

struct Counts {
  int pass = 0;
  int regression = 0;
  int cannot_tell = 0;
};

Counts count_outcomes(int trials, const Bench& base, const Bench& next, const Config& config = {}) {
  Counts counts;
  for (int seed = 0; seed < trials; ++seed) {
    const Outcome outcome = compare_benches(static_cast<std::uint64_t>(seed), base, next, config).outcome;
    counts.pass += outcome == Outcome::pass ? 1 : 0;
    counts.regression += outcome == Outcome::regression ? 1 : 0;
    counts.cannot_tell += outcome == Outcome::cannot_tell ? 1 : 0;
  }
  EXPECT_EQ(counts.pass + counts.regression + counts.cannot_tell, trials);
  return counts;
}

struct Kind {
  const char* name;
  Noise noise;
};

const Kind kinds[] = {
    {"calm", {}},
    {"scatter", {.scatter = 0.05}},
    {"autocorrelation", {.scatter = 0.02, .autocorrelation = 0.8}},
    {"drift", {.drift = 0.15}},
    {"machine", {.machine = 0.25}},
    {"spikes", {.spike_chance = 0.15}},
    {"two modes", {.mode_chance = 0.4}},
    {"runs that differ", {.between_runs = 0.02}},
    {"everything",
     {.scatter = 0.02,
      .autocorrelation = 0.5,
      .drift = 0.06,
      .machine = 0.2,
      .spike_chance = 0.1,
      .mode_chance = 0.2}},
};

class EveryNoise : public testing::TestWithParam<Kind> {};

TEST_P(EveryNoise, TheSameProgramRaisesAtMostTwoAlarmsInAHundred) {
  constexpr int trials = 500;
  const Bench bench{.noise = GetParam().noise};
  EXPECT_LE(count_outcomes(trials, bench, bench).regression, 0.02 * trials);
}

TEST_P(EveryNoise, ThirtyPercentSlowerNeverPasses) {
  constexpr int trials = 300;
  const Bench bench{.noise = GetParam().noise};
  Bench slower = bench;
  slower.slower = 0.30;
  EXPECT_EQ(count_outcomes(trials, bench, slower).pass, 0);
}

std::string name_of(const testing::TestParamInfo<Kind>& kind) {
  std::string name = kind.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryNoise, testing::ValuesIn(kinds), name_of);

TEST(Power, ThirtyPercentIsFoundWhereRoundsScatterByFive) {
  constexpr int trials = 300;
  for (const Noise& noise : {Noise{}, Noise{.scatter = 0.05}, Noise{.scatter = 0.02, .machine = 0.25}}) {
    const Bench bench{.noise = noise};
    Bench slower = bench;
    slower.slower = 0.30;
    EXPECT_GE(count_outcomes(trials, bench, slower).regression, 0.99 * trials);
  }
}

TEST(Power, TheSameProgramPassesOnACalmMachine) {
  constexpr int trials = 300;
  const Bench bench{.noise = {.scatter = 0.01}};
  EXPECT_GE(count_outcomes(trials, bench, bench).pass, 0.75 * trials);
}

TEST(Power, WhatWouldBeFoundIsFoundInEightOfTen) {
  // A measurement says which loss it would find; of runs that are slower by as much, so many are found.
  constexpr int trials = 400;
  const Bench bench{.configurations = 1, .noise = {.scatter = 0.02}};
  double least = 0.0;
  for (int seed = 0; seed < 50; ++seed) {
    least += compare_benches(static_cast<std::uint64_t>(1000 + seed), bench, bench)
                 .findings.front()
                 .judgement.least_found /
             50;
  }
  Bench slower = bench;
  slower.slower = least;
  const int found = count_outcomes(trials, bench, slower).regression;
  EXPECT_GE(found, 0.70 * trials);
  EXPECT_LE(found, 0.95 * trials);
}

TEST(ManyConfigurations, MakeNoMoreAlarms) {
  // With nothing allowed, the truth lies on the limit itself, where alarms are most likely.
  constexpr int trials = 600;
  Config config;
  config.gate.max_regress = 0.0;
  const Bench one{.configurations = 1, .noise = {}};
  const Bench twelve{.configurations = 12, .noise = {}};
  EXPECT_LE(count_outcomes(trials, one, one, config).regression, 0.045 * trials);
  EXPECT_LE(count_outcomes(trials, twelve, twelve, config).regression, 0.045 * trials);
}

// What `ab` does: pairs of short runs, judged at several looks, stopped at the first clear verdict.
Outcome take_turns(std::uint64_t seed, double slower, const Noise& noise, int pairs) {
  Bench bench{.rounds = 1, .noise = noise};
  Bench changed = bench;
  changed.slower = slower;
  Config config;
  config.paired = true;
  config.gate.max_regress = 0.02;
  config.gate.limit = stats::Limit::minimum_effect;
  config.gate.confidence = 0.98;
  const auto at = looks(pairs);
  Side base{"base", {}};
  Side next{"new", {}};
  Outcome outcome = Outcome::cannot_tell;
  for (const Look& look : at) {
    config.gate.error_share = look.error_share;
    while (std::cmp_less(base.results.size(), look.pairs)) {
      base.results.push_back(make_result(mix(seed, 2 * base.results.size()), bench));
      next.results.push_back(make_result(mix(seed, 2 * next.results.size() + 1), changed));
    }
    outcome = compare(base, next, config).outcome;
    if (outcome != Outcome::cannot_tell) break;
  }
  return outcome;
}

int count_regressions(int trials, double slower, const Noise& noise, int pairs = 40) {
  int found = 0;
  for (int seed = 0; seed < trials; ++seed) {
    found +=
        take_turns(static_cast<std::uint64_t>(seed), slower, noise, pairs) == Outcome::regression ? 1 : 0;
  }
  return found;
}

TEST(Turns, StoppingEarlyMakesNoMoreAlarms) {
  constexpr int trials = 80;
  EXPECT_LE(count_regressions(trials, 0.0, {.scatter = 0.03}), 0.02 * trials);
  EXPECT_LE(count_regressions(trials, 0.0, {.scatter = 0.03, .spike_chance = 0.1, .mode_chance = 0.2}),
            0.02 * trials);
}

TEST(Turns, FivePercentIsFoundInNineOfTen) {
  constexpr int trials = 50;
  EXPECT_GE(count_regressions(trials, 0.05, {.scatter = 0.03}), 0.9 * trials);
  EXPECT_GE(count_regressions(trials, 0.05, {.scatter = 0.02, .machine = 0.1, .spike_chance = 0.05}),
            0.9 * trials);
}

}  // namespace
}  // namespace dtrain::compare
