#include "stats/gate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dtrain::stats {
namespace {

// Evidence that says what a test wants it to say.
class Stub final : public Evidence {
 public:
  Stub(double estimate, double half, double p = 1.0) : estimate_(estimate), half_(half), p_(p) {}
  double estimate() const override { return estimate_; }
  Bounds interval(double) const override { return {estimate_ - half_, estimate_ + half_}; }
  double p_below(double x) const override {
    asked_ = x;
    return p_;
  }
  double p_above(double) const override { return 1.0; }
  std::vector<std::string> explain() const override { return {}; }
  double asked() const { return asked_; }

 private:
  double estimate_;
  double half_;
  double p_;
  mutable double asked_ = 0.0;
};

Verdict verdict_of(const Evidence& evidence, double may_feign = 0.0, double may_hide = 0.0) {
  return judge({{&evidence, may_feign, may_hide}}, {.max_regress = 0.05}).front().verdict;
}

TEST(Gate, WorseSameBetterAndCannotTell) {
  EXPECT_EQ(verdict_of(Stub(std::log(0.80), 0.02, 0.0001)), Verdict::worse);
  EXPECT_EQ(verdict_of(Stub(0.0, 0.02)), Verdict::same);
  EXPECT_EQ(verdict_of(Stub(0.05, 0.02)), Verdict::better);
  EXPECT_EQ(verdict_of(Stub(std::log(0.95), 0.02, 0.4)), Verdict::cannot_tell);
}

TEST(Gate, WorseNeedsMoreThanSignificance) {
  // A loss of 3 % that is beyond doubt is inside the limit of 5 %.
  const auto tiny = exact_evidence(std::log(0.97));
  EXPECT_EQ(verdict_of(*tiny), Verdict::same);
  const auto large = exact_evidence(std::log(0.94));
  EXPECT_EQ(verdict_of(*large), Verdict::worse);
}

TEST(Gate, AMinimumEffectNeedsALossBeyondDoubtAndItsSize) {
  const GateConfig config{.max_regress = 0.02, .limit = Limit::minimum_effect, .confidence = 0.98};
  const Stub shown(std::log(0.97), 0.02, 0.005);
  EXPECT_EQ(judge({{&shown}}, config).front().verdict, Verdict::worse);
  EXPECT_EQ(shown.asked(), 0.0);  // whether anything was lost at all
  const Stub small(std::log(0.985), 0.001, 1e-9);
  EXPECT_EQ(judge({{&small}}, config).front().verdict, Verdict::same);
  const Stub doubtful(std::log(0.97), 0.05, 0.02);
  EXPECT_EQ(judge({{&doubtful}}, config).front().verdict, Verdict::cannot_tell);
}

TEST(Gate, NoChangePassesEvenWithoutAllowance) {
  const auto evidence = exact_evidence(0.0);
  EXPECT_EQ(judge({{evidence.get()}}, {.max_regress = 0.0}).front().verdict, Verdict::same);
}

TEST(Gate, AsksForTheLossBeyondLimitAndDoubt) {
  const Stub evidence(0.0, 0.01);
  judge({{&evidence, 0.10, 0.0}}, {.max_regress = 0.05});
  EXPECT_NEAR(evidence.asked(), std::log(0.95 * 0.90), 1e-12);
}

TEST(Gate, DisturbanceOfTheNewSideCannotHideALoss) {
  const Stub slower(std::log(0.99), 0.005, 1.0);
  EXPECT_EQ(verdict_of(slower, 0.10, 0.0), Verdict::same);         // it may be faster than it looks
  EXPECT_EQ(verdict_of(slower, 0.0, 0.10), Verdict::cannot_tell);  // the base may be
}

TEST(Gate, IntervalIsWidenedOnTheSideOfTheDoubt) {
  const Stub evidence(0.0, 0.01);
  const Judgement judged = judge({{&evidence, 0.10, 0.20}}, {}).front();
  EXPECT_NEAR(judged.low, std::exp(-0.01) * 0.80 - 1.0, 1e-12);
  EXPECT_NEAR(judged.high, std::exp(0.01) / 0.90 - 1.0, 1e-12);
}

TEST(Gate, NoMoreThanAllCanBeLost) {
  const Stub evidence(std::log(0.3), 0.1);
  EXPECT_NEAR(judge({{&evidence, 0.0, 0.9}}, {}).front().low, 0.03 * std::exp(-0.1) - 1.0, 1e-12);
  EXPECT_GE(judge({{&evidence, 0.0, 1.0}}, {}).front().low, -1.0);
  EXPECT_GE(judge({{&evidence, 0.0, 1.8}}, {}).front().low, -1.0);
}

TEST(Gate, HolmsCorrection) {
  const Stub a(-0.2, 0.01, 0.010);
  const Stub b(-0.2, 0.01, 0.012);
  const Stub c(-0.2, 0.01, 0.015);
  const auto judged = judge({{&c}, {&a}, {&b}}, {});
  EXPECT_NEAR(judged[1].p_adjusted, 0.030, 1e-12);  // 3 x 0.010
  EXPECT_NEAR(judged[2].p_adjusted, 0.030, 1e-12);  // 2 x 0.012, but not below the one before
  EXPECT_NEAR(judged[0].p_adjusted, 0.030, 1e-12);
  for (const auto& one : judged) EXPECT_NE(one.verdict, Verdict::worse);  // 0.030 is not below 0.025
  EXPECT_EQ(judge({{&a}}, {}).front().verdict, Verdict::worse);
}

TEST(Gate, LooksShareTheChanceOfError) {
  const Stub evidence(-0.2, 0.01, 0.01);
  EXPECT_EQ(judge({{&evidence}}, {.error_share = 1.0}).front().verdict, Verdict::worse);
  EXPECT_NE(judge({{&evidence}}, {.error_share = 0.25}).front().verdict, Verdict::worse);
}

TEST(Gate, WhatItWouldFindGrowsWithTheInterval) {
  const Stub narrow(0.0, 0.01);
  const Stub wide(0.0, 0.05);
  const double least = judge({{&narrow}}, {.max_regress = 0.05}).front().least_found;
  EXPECT_NEAR(least, 1.0 - 0.95 * std::exp(-0.0143), 1e-9);
  EXPECT_GT(judge({{&wide}}, {.max_regress = 0.05}).front().least_found, least);
}

TEST(Gate, UnknownIntervalsNeverPass) {
  const Stub unknown(0.0, std::numeric_limits<double>::infinity());
  EXPECT_EQ(verdict_of(unknown), Verdict::cannot_tell);
}

}  // namespace
}  // namespace dtrain::stats
