#include "compare/comparison.hpp"

#include <gmock/gmock.h>

#include "compare/metric.hpp"
#include "sides.hpp"

namespace dtrain::compare {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

TEST(Compare, AResultIsTheSameAsItself) {
  const auto comparison = against_base(base_result());
  EXPECT_EQ(comparison.outcome, Outcome::pass);
  EXPECT_EQ(exit_code(comparison), ExitCode::fine);
  ASSERT_EQ(comparison.findings.size(), 3U);
  for (const auto& finding : comparison.findings) {
    EXPECT_EQ(finding.change, 0.0);
    EXPECT_EQ(finding.judgement.verdict, stats::Verdict::same);
  }
}

TEST(Compare, EvenWhereItsRoundsScatterWildly) {
  const Bench wild{.noise = {.scatter = 0.5}};
  EXPECT_EQ(compare({"a", {make_result(3, wild)}}, {"b", {make_result(3, wild)}}, {}).outcome, Outcome::pass);
}

TEST(Compare, SlowerIsARegressionAndFasterIsNot) {
  auto slower = make_result(2, calm);
  make_slower(slower, 1.25);
  const auto worse = against_base(slower);
  EXPECT_EQ(worse.outcome, Outcome::regression);
  EXPECT_EQ(exit_code(worse), ExitCode::regression);
  EXPECT_NEAR(worse.findings[0].change, -0.20, 0.02);
  auto faster = make_result(2, calm);
  make_slower(faster, 0.8);
  const auto better = against_base(faster);
  EXPECT_EQ(better.outcome, Outcome::pass);
  EXPECT_EQ(better.findings[0].judgement.verdict, stats::Verdict::better);
  EXPECT_NEAR(better.findings[0].change, 0.25, 0.02);
}

TEST(Compare, OneConfigurationIsEnough) {
  auto next = make_result(2, calm);
  for (auto& round : next.samples.runs[2].rounds) round.seconds *= 1.3;
  const auto comparison = against_base(next);
  EXPECT_EQ(comparison.outcome, Outcome::regression);
  EXPECT_THAT(comparison.headline, HasSubstr("mirrored-2"));
  EXPECT_EQ(comparison.findings[0].judgement.verdict, stats::Verdict::same);
}

TEST(Compare, ASlowerMachineIsNotASlowerProgram) {
  auto next = make_result(2, calm);
  make_slower(next, 1.3);
  for (auto& run : next.samples.runs) {
    for (auto& round : run.rounds) round.calibration_seconds *= 1.3;
  }
  const auto comparison = against_base(next);
  EXPECT_EQ(comparison.outcome, Outcome::pass);
  EXPECT_NEAR(comparison.findings[0].raw_change, 1.0 / 1.3 - 1.0, 0.02);
  EXPECT_NEAR(comparison.findings[0].change, 0.0, 0.02);
}

TEST(Compare, CalibrationOfACoreSaysNothingOfAGpu) {
  auto base = base_result();
  auto next = make_result(2, calm);
  base.device = next.device = "cuda";
  make_slower(next, 1.3);
  for (auto& run : next.samples.runs) {
    for (auto& round : run.rounds) round.calibration_seconds *= 1.3;
  }
  const auto comparison = compare({"base", {base}}, {"new", {next}}, {});
  EXPECT_FALSE(comparison.findings[0].normalised);
  EXPECT_EQ(comparison.outcome, Outcome::regression);
}

class OtherWork : public testing::TestWithParam<Change> {};

TEST_P(OtherWork, IsRefusedByItsKey) {
  auto next = base_result();
  GetParam().make(next);
  const auto refused = against_base(next);
  EXPECT_EQ(refused.outcome, Outcome::cannot_compare);
  EXPECT_EQ(exit_code(refused), ExitCode::no_verdict);
  EXPECT_THAT(work_keys(refused), Contains(HasSubstr(GetParam().key)));
  EXPECT_THAT(refused.headline, HasSubstr(GetParam().key));
  EXPECT_TRUE(refused.findings.empty());
  Config force;
  force.force = true;
  const auto forced = against_base(next, force);
  EXPECT_TRUE(forced.forced);
  EXPECT_THAT(forced.headline, HasSubstr("Forced"));
  EXPECT_FALSE(forced.findings.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Keys, OtherWork,
    testing::Values(Change{"machine.key", [](auto& r) { r.machine.key = "m2"; }},
                    Change{"device", [](auto& r) { r.device = "cuda"; }},
                    Change{"model.parameters", [](auto& r) { r.model.parameters = 5; }},
                    Change{"model", [](auto& r) { r.options.model = "mlp"; }},
                    Change{"batch_size", [](auto& r) { r.options.batch_size = 32; }},
                    Change{"precision", [](auto& r) { r.options.precision = config::Precision::bf16; }},
                    Change{"optimizer", [](auto& r) { r.options.optimizer = "sgd"; }},
                    Change{"sync_every", [](auto& r) { r.options.sync_every = 8; }},
                    Change{"updates", [](auto& r) { r.options.updates = config::Updates::async; }},
                    Change{"compress", [](auto& r) { r.options.compress = "fp16"; }},
                    Change{"accumulate", [](auto& r) { r.options.accumulate = 2; }},
                    Change{"seed", [](auto& r) { r.options.seed = 9; }},
                    Change{"threads_per_replica", [](auto& r) { r.options.threads_per_replica = 2; }},
                    Change{"dataset.checksum", [](auto& r) { r.dataset.checksum = "beef"; }},
                    Change{"build.sanitizers", [](auto& r) { r.build.sanitizers = "thread"; }},
                    Change{"simulated", [](auto& r) { r.samples.runs[2].plan.simulated = true; }},
                    Change{"global_batch", [](auto& r) { r.samples.runs[2].plan.global_batch = 100; }},
                    Change{"losses", [](auto& r) { r.samples.runs[1].losses[1] = 2.4; }},
                    Change{"losses", [](auto& r) { r.samples.runs[1].losses.clear(); }}));

// A path may hold another model by now, and a model may lie elsewhere.
TEST(SameWork, ModelsAreToldByWhatTheyCompute) {
  auto base = base_result();
  auto next = base_result();
  const auto judged = [&] { return compare({"base", {base}}, {"new", {next}}, {}); };
  base.options.model = next.options.model = "mine.toml";
  base.model.fingerprint = "00000000000000aa";
  next.model.fingerprint = "00000000000000bb";
  EXPECT_THAT(work_keys(judged()), Contains("model"));
  next.model.fingerprint = base.model.fingerprint;
  next.options.model = "elsewhere/mine.toml";
  EXPECT_EQ(judged().outcome, Outcome::pass);
  next.model.fingerprint.clear();
  EXPECT_THAT(work_keys(judged()), Contains("model"));
}

TEST(SameWork, LossesMayDifferByRounding) {
  auto next = make_result(2, calm);
  for (auto& run : next.samples.runs) {
    for (double& loss : run.losses) loss *= 1.0 + 1e-5;
  }
  EXPECT_EQ(against_base(next).outcome, Outcome::pass);
}

TEST(SameWork, AnotherWayOfDoingItIsListedAndCompared) {
  auto next = make_result(2, calm);
  next.options.bucket_mb = 0.1;
  next.options.rounds = 7;
  next.build.commit = "def";
  const auto comparison = against_base(next);
  EXPECT_EQ(comparison.outcome, Outcome::pass);
  EXPECT_TRUE(work_keys(comparison).empty());
  EXPECT_THAT(comparison.differences, Contains(Field(&Difference::key, "bucket_mb")));
  EXPECT_THAT(comparison.differences, Contains(Field(&Difference::key, "build.commit")));
}

TEST(SameWork, TwoCommandLinesDifferOnPurpose) {
  auto next = make_result(2, calm);
  next.options.precision = config::Precision::bf16;
  Config config;
  config.deliberate = true;
  EXPECT_NE(against_base(next, config).outcome, Outcome::cannot_compare);
  next.machine.key = "m2";
  EXPECT_EQ(against_base(next, config).outcome, Outcome::cannot_compare);
}

TEST(FailsClosed, Incomplete) {
  auto next = base_result();
  next.samples.complete = false;
  const auto comparison = against_base(next);
  EXPECT_EQ(comparison.outcome, Outcome::cannot_compare);
  EXPECT_THAT(comparison.headline, HasSubstr("new is incomplete"));
  auto empty = base_result();
  empty.samples.runs.clear();
  EXPECT_EQ(against_base(empty).outcome, Outcome::cannot_compare);
  EXPECT_EQ(compare({"base", {empty}}, {"new", {base_result()}}, {}).outcome, Outcome::cannot_compare);
}

TEST(FailsClosed, AFailedRun) {
  auto next = make_result(2, calm);
  next.samples.runs[2].failure = "rank 1 was lost";
  const auto comparison = against_base(next);
  EXPECT_EQ(comparison.outcome, Outcome::cannot_tell);
  EXPECT_THAT(comparison.findings[2].reason, HasSubstr("rank 1 was lost"));
}

TEST(FailsClosed, AMissingConfiguration) {
  auto next = make_result(2, calm);
  next.samples.runs.pop_back();
  const auto comparison = against_base(next);
  EXPECT_EQ(comparison.outcome, Outcome::cannot_tell);
  EXPECT_THAT(comparison.missing, testing::ElementsAre("mirrored-2"));
  EXPECT_EQ(compare({"base", {next}}, {"new", {base_result()}}, {}).outcome,
            Outcome::pass);  // one more is fine
}

void under(report::Result& result, std::size_t run, const std::string& strategy) {
  auto& plan = result.samples.runs[run].plan;
  plan.strategy = strategy;
  plan.id = fmt::format("{}-{}", strategy, plan.replicas);
}

// As `--strategy all` measures them.
report::Result side_by_side(std::uint64_t seed) {
  auto result = make_result(seed, calm);
  for (const char* strategy : {"tensor", "sharded"}) {
    result.samples.runs.push_back(result.samples.runs[2]);
    under(result, result.samples.runs.size() - 1, strategy);
  }
  return result;
}

TEST(FailsClosed, AnotherStrategysRunDoesNotStandInForAMissingOne) {
  auto next = side_by_side(2);
  next.samples.runs.resize(3);
  const auto comparison = compare({"base", {side_by_side(1)}}, {"new", {next}}, {});
  EXPECT_EQ(comparison.outcome, Outcome::cannot_tell);
  EXPECT_THAT(comparison.missing, testing::ElementsAre("tensor-2", "sharded-2"));
  EXPECT_THAT(comparison.headline, HasSubstr("tensor-2, sharded-2"));
  EXPECT_EQ(comparison.findings.size(), 3U);
}

TEST(FailsClosed, OneRunIsNotThePartnerOfTwo) {
  auto base = side_by_side(1);
  base.samples.runs.erase(base.samples.runs.begin() + 2);
  auto next = make_result(2, calm);
  const auto comparison = compare({"base", {base}}, {"new", {next}}, {});
  EXPECT_THAT(comparison.missing, Contains("tensor-2"));
  EXPECT_THAT(comparison.missing, Contains("sharded-2"));
  EXPECT_EQ(comparison.outcome, Outcome::cannot_tell);
}

TEST(Compare, StrategiesAreHeldAgainstEachOtherByReplicas) {
  auto next = make_result(2, calm);
  for (const std::size_t run : {1U, 2U}) under(next, run, "sharded");
  for (auto& round : next.samples.runs[2].rounds) round.seconds *= 1.3;
  const auto comparison = against_base(next);
  EXPECT_TRUE(comparison.missing.empty());
  EXPECT_TRUE(comparison.added.empty());
  EXPECT_THAT(comparison.differences, Contains(Field(&Difference::key, "mirrored-2: strategy")));
  ASSERT_EQ(comparison.findings.size(), 3U);
  EXPECT_NEAR(comparison.findings[2].change, 1.0 / 1.3 - 1.0, 0.02);
}

// Their names say the tool, their strategies are called alike.
TEST(Compare, ToolsAreHeldAgainstEachOtherByReplicas) {
  auto next = make_result(2, calm);
  for (auto& run : next.samples.runs) run.plan.id = "torch-" + run.plan.id;
  const auto comparison = against_base(next);
  EXPECT_EQ(comparison.outcome, Outcome::pass);
  EXPECT_EQ(comparison.findings.size(), 3U);
}

TEST(FailsClosed, NothingInCommon) {
  auto next = base_result();
  next.samples.runs.erase(next.samples.runs.begin(), next.samples.runs.begin() + 2);
  auto base = base_result();
  base.samples.runs.resize(1);
  EXPECT_EQ(exit_code(compare({"base", {base}}, {"new", {next}}, {})), ExitCode::no_verdict);
}

TEST(FailsClosed, TooFewRounds) {
  for (const int rounds : {1, 2}) {
    auto next = make_result(2, calm);
    for (auto& run : next.samples.runs) run.rounds.resize(static_cast<std::size_t>(rounds));
    make_slower(next, 3.0);
    const auto comparison = against_base(next);
    EXPECT_EQ(comparison.outcome, Outcome::cannot_tell);
    EXPECT_THAT(comparison.findings[0].reason, HasSubstr("use more --rounds"));
  }
}

TEST(FailsClosed, ALoadedMachine) {
  auto next = make_result(2, calm);
  make_slower(next, 1.25);
  for (auto& run : next.samples.runs) {
    for (auto& round : run.rounds) round.seconds *= 1.0;
    run.noise.foreign_load = 2.0;  // of 4 cores
  }
  const auto comparison = against_base(next);
  EXPECT_EQ(comparison.outcome, Outcome::cannot_tell);
  EXPECT_THAT(comparison.findings[0].reason, HasSubstr("disturbed"));
}

TEST(Compare, SwappedSidesSwapTheAnswer) {
  auto slower = make_result(2, calm);
  make_slower(slower, 1.25);
  const auto forth = against_base(slower);
  const auto back = compare({"base", {slower}}, {"new", {base_result()}}, {});
  for (std::size_t i = 0; i < forth.findings.size(); ++i) {
    EXPECT_NEAR((1.0 + forth.findings[i].change) * (1.0 + back.findings[i].change), 1.0, 1e-9);
    EXPECT_EQ(back.findings[i].judgement.verdict, stats::Verdict::better);
  }
}

TEST(Compare, OrderOfRoundsDoesNotMatter) {
  auto next = make_result(2, calm);
  const auto one = against_base(next);
  for (auto& run : next.samples.runs) std::reverse(run.rounds.begin(), run.rounds.end());
  const auto other = against_base(next);
  for (std::size_t i = 0; i < one.findings.size(); ++i) {
    EXPECT_NEAR(one.findings[i].change, other.findings[i].change, 1e-12);
    EXPECT_NEAR(one.findings[i].low, other.findings[i].low, 1e-9);
  }
}

TEST(Compare, UnitsOfTimeDoNotMatter) {
  auto base = base_result();
  auto next = make_result(2, calm);
  const auto one = compare({"base", {base}}, {"new", {next}}, {});
  for (auto* result : {&base, &next}) make_slower(*result, 1000.0);
  const auto other = compare({"base", {base}}, {"new", {next}}, {});
  for (std::size_t i = 0; i < one.findings.size(); ++i) {
    EXPECT_NEAR(one.findings[i].low, other.findings[i].low, 1e-9);
    EXPECT_NEAR(one.findings[i].high, other.findings[i].high, 1e-9);
  }
}

}  // namespace
}  // namespace dtrain::compare
