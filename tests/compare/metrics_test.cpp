#include <gmock/gmock.h>

#include "compare/metric.hpp"
#include "sides.hpp"

namespace dtrain::compare {
namespace {

using testing::HasSubstr;

TEST(Metrics, KnowWhichWayIsBetter) {
  auto next = make_result(2, calm);
  make_slower(next, 1.25);
  for (auto& run : next.samples.runs) run.replica_peak_bytes = 2 << 20;
  Config config;
  config.metrics = {"step_ms", "replica_peak_bytes", "bytes_sent"};
  const auto comparison = against_base(next, config);
  EXPECT_EQ(comparison.outcome, Outcome::regression);
  for (const auto& finding : comparison.findings) {
    if (finding.metric == "step_ms") {
      EXPECT_EQ(finding.judgement.verdict, stats::Verdict::worse);
      EXPECT_NEAR(finding.change, 0.25, 0.02);  // of the metric itself: more milliseconds
      EXPECT_LT(finding.low, finding.high);
    }
    if (finding.metric == "replica_peak_bytes") {
      EXPECT_EQ(finding.judgement.verdict, stats::Verdict::worse);
      EXPECT_DOUBLE_EQ(finding.change, 1.0);
    }
    if (finding.metric == "bytes_sent") {
      EXPECT_EQ(finding.configuration, "mirrored-2") << "0 on both sides is no question";
      EXPECT_EQ(finding.judgement.verdict, stats::Verdict::same);
    }
  }
}

TEST(Metrics, EfficiencyIsOfRunsThatScale) {
  Config config;
  config.metrics = {"efficiency"};
  auto next = make_result(2, calm);
  for (auto& round : next.samples.runs[2].rounds) round.seconds *= 1.5;
  const auto comparison = against_base(next, config);
  ASSERT_EQ(comparison.findings.size(), 1U);
  EXPECT_EQ(comparison.findings[0].configuration, "mirrored-2");
  EXPECT_EQ(comparison.outcome, Outcome::regression);
}

void give_phases(report::Result& result, double straggler_share) {
  for (auto& run : result.samples.runs) {
    for (auto& round : run.rounds) {
      const double step = round.seconds / round.steps;
      round.ranks.assign(2, {});
      for (auto& rank : round.ranks) {
        rank.communication = 0.3 * step;
        rank.straggler_wait = straggler_share * step;
      }
    }
  }
}

TEST(Metrics, PartsOfASlowerStepAreNotMoreWhereThereWasNothing) {
  Config config;
  config.metrics = {"straggler_ms"};
  auto base = base_result();
  auto next = make_result(2, calm);
  make_slower(next, 1.3);
  for (auto* result : {&base, &next}) give_phases(*result, 0.0);
  EXPECT_TRUE(compare({"base", {base}}, {"new", {next}}, config).findings.empty()) << "0 is no question";
  for (auto* result : {&base, &next}) give_phases(*result, 0.003);
  next.samples.runs[1].rounds.pop_back();
  const auto comparison = compare({"base", {base}}, {"new", {next}}, config);
  ASSERT_EQ(comparison.findings.size(), 3U);
  EXPECT_EQ(comparison.outcome, Outcome::pass);
  for (const auto& finding : comparison.findings) {
    EXPECT_EQ(finding.change, 0.0);
    EXPECT_EQ(finding.reason, "");
    EXPECT_NEAR(finding.next.median / finding.base.median, 1.3, 0.02) << "as measured";
  }
}

void change_machine(report::Result& result, double slower) {
  make_slower(result, slower);
  for (auto& run : result.samples.runs) {
    for (auto& round : run.rounds) round.calibration_seconds *= slower;
  }
}

TEST(Metrics, AFasterMachineMakesNextToNothingNoMore) {
  Config config;
  config.metrics = {"straggler_ms"};
  auto base = base_result();
  give_phases(base, 0.005);
  for (auto& run : base.samples.runs) {
    for (auto& rank : run.rounds[0].ranks) rank.straggler_wait *= 2.4;
  }
  for (const double slower : {0.77, 1.0, 1.3}) {
    auto next = make_result(2, calm);
    change_machine(next, slower);
    give_phases(next, 0.004);
    const auto comparison = compare({"base", {base}}, {"new", {next}}, config);
    for (const auto& finding : comparison.findings) EXPECT_NEAR(finding.change, -0.035, 0.01) << slower;
  }
}

TEST(Metrics, PartsOfTheStepThatGrewAreShownAsMeasured) {
  Config config;
  config.metrics = {"straggler_ms"};
  auto base = base_result();
  auto next = make_result(2, calm);
  give_phases(base, 0.0);
  give_phases(next, 0.05);
  const auto comparison = compare({"base", {base}}, {"new", {next}}, config);
  EXPECT_EQ(comparison.outcome, Outcome::regression);
  ASSERT_EQ(comparison.findings.size(), 3U);
  EXPECT_EQ(comparison.findings[2].base.median, 0.0);
  EXPECT_NEAR(comparison.findings[2].change, 4.0, 0.2) << "against 1 % of the step";
  EXPECT_THAT(comparison.findings[2].reason, HasSubstr("1 % of the base's step"));
  for (auto& run : next.samples.runs) run.rounds[0].ranks.clear();
  EXPECT_EQ(compare({"base", {base}}, {"new", {next}}, config).outcome, Outcome::cannot_tell);
}

TEST(Metrics, AnUnknownOneIsAUsageError) {
  Config config;
  config.metrics = {"images_per_secnd"};
  EXPECT_THROW(against_base(base_result(), config), Error);
}

TEST(SeveralRuns, ShowHowMuchRunsDiffer) {
  // Runs differ by 8 %: five of each side know that, one of each does not.
  const Bench differing{.noise = {.scatter = 0.002, .between_runs = 0.08}};
  Side base{"base", {}};
  Side next{"new", {}};
  for (std::uint64_t i = 0; i < 5; ++i) {
    base.results.push_back(make_result(100 + i, differing));
    next.results.push_back(make_result(200 + i, differing));
  }
  const auto many = compare(base, next, {});
  EXPECT_EQ(many.findings[0].base.runs, 5U);
  EXPECT_GT(many.findings[0].high - many.findings[0].low, 0.08);
}

TEST(SeveralRuns, OfOneSideMustBeOfTheSameWork) {
  Side base{"base", {base_result(), make_result(5, calm)}};
  base.results[1].options.batch_size = 32;
  const auto comparison = compare(base, {"new", {base_result()}}, {});
  EXPECT_EQ(comparison.outcome, Outcome::cannot_compare);
  EXPECT_THAT(comparison.headline, HasSubstr("within base: batch_size"));
}

TEST(SeveralRuns, EachCountsForWhatHasOneValueAResult) {
  Config config;
  config.metrics = {"replica_peak_bytes"};
  const Side base{"base", {base_result(), make_result(3, calm), make_result(4, calm)}};
  Side next{"new", {make_result(5, calm), make_result(6, calm), make_result(7, calm)}};
  EXPECT_EQ(compare(base, next, config).outcome, Outcome::pass);
  for (const std::size_t i : {1U, 2U}) next.results[i].samples.runs[2].replica_peak_bytes *= 2;
  const auto worse = compare(base, next, config);
  EXPECT_EQ(worse.outcome, Outcome::regression);
  EXPECT_NEAR(worse.findings[2].change, std::exp2(2.0 / 3.0) - 1.0, 1e-9);
  EXPECT_THAT(worse.findings[2].reason, HasSubstr("between results of the new side"));
  EXPECT_EQ(worse.findings[1].reason, "");
}

class OtherRun : public testing::TestWithParam<Change> {};

TEST_P(OtherRun, IsFoundInEachResultOfASide) {
  Side base{"base", {base_result(), make_result(3, calm), make_result(4, calm)}};
  Side next{"new", {make_result(5, calm), make_result(6, calm), make_result(7, calm)}};
  EXPECT_EQ(compare(base, next, {}).outcome, Outcome::pass);
  for (Side* side : {&base, &next}) {
    const report::Result before = side->results[1];
    GetParam().make(side->results[1]);
    const auto comparison = compare(base, next, {});
    EXPECT_EQ(comparison.outcome, Outcome::cannot_compare);
    EXPECT_THAT(comparison.headline, HasSubstr(fmt::format("within {}: {}", side->name, GetParam().key)));
    side->results[1] = before;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Keys, OtherRun,
    testing::Values(Change{"mirrored-2: losses", [](auto& r) { r.samples.runs[2].losses[0] *= 1.5; }},
                    Change{"mirrored-2: global_batch",
                           [](auto& r) { r.samples.runs[2].plan.global_batch *= 2; }},
                    Change{"mirrored-1: simulated", [](auto& r) { r.samples.runs[1].plan.simulated = true; }},
                    Change{"configurations", [](auto& r) { r.samples.runs.pop_back(); }}));

}  // namespace
}  // namespace dtrain::compare
