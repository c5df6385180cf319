#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::strategy {
namespace {

using ::testing::HasSubstr;

class Check : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_refused(const std::string& what, const std::string& advice) {
    try {
      strategies().at(GetParam()).value->check(options);
      ADD_FAILURE() << "not refused: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::usage) << what;
      EXPECT_THAT(error.what(), HasSubstr(what));
      EXPECT_THAT(error.advice(), HasSubstr(advice)) << what;
    }
  }

  config::Options options;
};

TEST_P(Check, TakesTheDefaults) { EXPECT_NO_THROW(strategies().at(GetParam()).value->check(options)); }

TEST_P(Check, TakesAveragesWithAndWithoutMomentum) {
  options.sync_every = 8;
  EXPECT_NO_THROW(strategies().at(GetParam()).value->check(options));
  options.outer_momentum = 0.7;
  EXPECT_NO_THROW(strategies().at(GetParam()).value->check(options));
}

TEST_P(Check, TakesCompression) {
  options.compress = "fp16";
  EXPECT_NO_THROW(strategies().at(GetParam()).value->check(options));
}

TEST_P(Check, RefusesFlagsOfParameterServers) {
  const std::string belongs = " belongs to --strategy parameter-server, not to " + GetParam();
  options.updates = config::Updates::async;
  expect_refused("--updates async" + belongs, "leave --updates out");
  options = {};
  options.staleness = 0;
  expect_refused("--staleness 0" + belongs, "leave --staleness out");
  options = {};
  options.backup_workers = 2;
  expect_refused("--backup-workers 2" + belongs, "leave --backup-workers out");
  options = {};
  options.servers = 3;
  expect_refused("--servers 3" + belongs, "leave --servers out");
}

TEST_P(Check, RefusesWhatDoesNotGoWithAverages) {
  options.outer_momentum = 0.9;
  expect_refused("--outer-momentum 0.9", "--sync-every");
  options.sync_every = 4;
  options.compress = "topk:0.01";
  expect_refused("--compress topk:0.01 is for gradients", "leave one");
  options.compress = "none";
  options.precision = config::Precision::fp16;
  expect_refused("--sync-every 4 does not go with --precision fp16", "bf16");
  options.precision = config::Precision::fp32;
  options.device = "cuda";
  expect_refused("--sync-every 4: weights of GPU replicas", "--device cpu");
}

INSTANTIATE_TEST_SUITE_P(Strategies, Check, ::testing::Values("mirrored", "multi-worker"),
                         [](const auto& name) {
                           return name.param == "mirrored" ? "mirrored" : "multi_worker";
                         });

TEST(TpuCheck, RefusesWhatACompiledStepDoesNotDo) {
  const Strategy& tpu = *strategies().at("tpu").value;
  const auto refused = [&](const auto& change) -> std::string {
    config::Options options;
    change(options);
    try {
      tpu.check(options);
      return "none";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::usage);
      return error.what();
    }
  };
  EXPECT_THAT(refused([](auto& o) { o.backup_workers = 1; }),
              HasSubstr("--backup-workers 1: --strategy tpu"));
  EXPECT_THAT(refused([](auto& o) { o.servers = 2; }), HasSubstr("--servers 2: --strategy tpu"));
  EXPECT_THAT(refused([](auto& o) { o.staleness = 2; }), HasSubstr("--staleness 2: --strategy tpu"));
  EXPECT_THAT(refused([](auto& o) { o.outer_momentum = 0.5; }), HasSubstr("--outer-momentum 0.5"));
  const auto delay = [](int rank) {
    return [rank](auto& o) { o.injected_delays = {{rank, config::Phase::input, 200.0}}; };
  };
  EXPECT_THAT(refused(delay(1)), HasSubstr("--inject-delay rank=1: under --strategy tpu one loop"));
  EXPECT_EQ(refused(delay(0)), "none");
}

}  // namespace
}  // namespace dtrain::strategy
