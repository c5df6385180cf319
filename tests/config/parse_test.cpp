#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/options.hpp"
#include "expect_error.hpp"

namespace dtrain::config {
namespace {

using Counts = std::vector<int>;

TEST(ParseReplicaList, ReadsCountListAndRange) {
  EXPECT_EQ(parse_replica_list("4", "--gpus"), Counts({4}));
  EXPECT_EQ(parse_replica_list("1,2,4", "--gpus"), Counts({1, 2, 4}));
  EXPECT_EQ(parse_replica_list("1..4", "--gpus"), Counts({1, 2, 3, 4}));
  EXPECT_EQ(parse_replica_list("3..3", "--gpus"), Counts({3}));
}

TEST(ParseReplicaList, SortsAList) { EXPECT_EQ(parse_replica_list("4,1,2", "--gpus"), Counts({1, 2, 4})); }

TEST(ParseReplicaList, TakesTheLargestSweep) {
  EXPECT_EQ(parse_replica_list("1..64", "--gpus").size(), 64U);
  EXPECT_EQ(parse_replica_list("4096", "--gpus"), Counts({4096}));
}

class BadReplicaList : public testing::TestWithParam<const char*> {};

TEST_P(BadReplicaList, NamesFlagAndValue) {
  expect_error([] { parse_replica_list(GetParam(), "--gpus"); }, ErrorCategory::usage, {"--gpus"});
}

INSTANTIATE_TEST_SUITE_P(Values, BadReplicaList,
                         testing::Values("", "0", "-1", "two", "4x", "4 ", " 4", "+4", "4.0", "1e3", "0x4",
                                         "4097", "99999999999999999999", "1,,2", "1,2,", ",1", "1,0", "2,2",
                                         "1..", "..4", "4..1", "0..4", "1..100000", "1..65", "1...4",
                                         "1..2..3", "1,2..4", "nan"));

TEST(ParseReplicaList, SuggestsTheRangeTurnedRound) {
  expect_error([] { parse_replica_list("4..1", "--gpus"); }, ErrorCategory::usage, {"'4..1'", "1..4"});
}

TEST(ParseInteger, TakesTheLimitsThemselves) {
  EXPECT_EQ(parse_integer("1", "--steps", 1, 10), 1);
  EXPECT_EQ(parse_integer("10", "--steps", 1, 10), 10);
  EXPECT_EQ(parse_integer("007", "--steps", 1, 10), 7);
}

class BadInteger : public testing::TestWithParam<const char*> {};

TEST_P(BadInteger, IsAUsageErrorThatShowsIt) {
  expect_error([] { parse_integer(GetParam(), "--steps", 1, 10); }, ErrorCategory::usage,
               {"--steps", std::string("'") + GetParam() + "'", "1 to 10"});
}

INSTANTIATE_TEST_SUITE_P(Values, BadInteger,
                         testing::Values("", "0", "11", "-3", "3x", "x3", "3.5", "1e1", "٣", "2147483648",
                                         "-", "--", "3,4"));

TEST(ParseNumber, ReadsDecimalsAndExponents) {
  EXPECT_DOUBLE_EQ(parse_number("1e-3", "--lr", 0.0, 10.0), 1e-3);
  EXPECT_DOUBLE_EQ(parse_number("0.1", "--lr", 0.0, 10.0), 0.1);
}

class BadNumber : public testing::TestWithParam<const char*> {};

TEST_P(BadNumber, IsAUsageErrorThatShowsIt) {
  expect_error([] { parse_number(GetParam(), "--lr", 0.0, 10.0); }, ErrorCategory::usage,
               {"--lr", std::string("'") + GetParam() + "'"});
}

INSTANTIATE_TEST_SUITE_P(Values, BadNumber,
                         testing::Values("", "nan", "-nan", "inf", "-1", "11", "1e999", "1,5", "0.1x", "1 "));

TEST(ParseSeed, TakesAllOf64Bits) {
  EXPECT_EQ(parse_seed("18446744073709551615", "--seed"), 18446744073709551615ULL);
  EXPECT_EQ(parse_seed("0", "--seed"), 0U);
  expect_error([] { parse_seed("18446744073709551616", "--seed"); }, ErrorCategory::usage, {"--seed"});
  expect_error([] { parse_seed("-1", "--seed"); }, ErrorCategory::usage, {"--seed", "'-1'"});
}

TEST(ParseDuration, ReadsUnits) {
  EXPECT_DOUBLE_EQ(parse_duration("5s", "--timeout").count(), 5.0);
  EXPECT_DOUBLE_EQ(parse_duration("250ms", "--timeout").count(), 0.25);
  EXPECT_DOUBLE_EQ(parse_duration("1.5", "--timeout").count(), 1.5);
}

class BadDuration : public testing::TestWithParam<const char*> {};

TEST_P(BadDuration, IsAUsageErrorThatNamesTheForms) {
  expect_error([] { parse_duration(GetParam(), "--timeout"); }, ErrorCategory::usage, {"--timeout", "250ms"});
}

INSTANTIATE_TEST_SUITE_P(Values, BadDuration,
                         testing::Values("", "s", "ms", "0", "0s", "-1s", "5m", "5 s", "5sec", "nan", "nans",
                                         "inf", "1e300s", "5S"));

TEST(ParseSize, CountsInPowersOfTen) {
  EXPECT_EQ(parse_size("25MB", "--memory-limit"), 25'000'000U);
  EXPECT_EQ(parse_size("1.5GB", "--memory-limit"), 1'500'000'000U);
  EXPECT_EQ(parse_size("4KB", "--memory-limit"), 4'000U);
  EXPECT_EQ(parse_size("4096", "--memory-limit"), 4'096U);
}

class BadSize : public testing::TestWithParam<const char*> {};

TEST_P(BadSize, IsAUsageErrorThatNamesTheForms) {
  expect_error([] { parse_size(GetParam(), "--memory-limit"); }, ErrorCategory::usage,
               {"--memory-limit", "200MB"});
}

INSTANTIATE_TEST_SUITE_P(Values, BadSize,
                         testing::Values("", "MB", "0", "-1MB", "0.1", "10TB", "10mb", "nan", "inf", "1e30GB",
                                         "1MBx"));

TEST(ParseRate, ReadsPercentAndFraction) {
  EXPECT_EQ(parse_rate("70%", "--target-accuracy"), 0.7);
  EXPECT_EQ(parse_rate("5%", "--target-accuracy"), 0.05);
  EXPECT_EQ(parse_rate("0.9", "--target-accuracy"), 0.9);
  EXPECT_EQ(parse_rate("100%", "--target-accuracy"), 1.0);
}

TEST(ParseRate, SuggestsThePercentSign) {
  expect_error([] { parse_rate("94", "--target-accuracy"); }, ErrorCategory::usage, {"'94'", "94%"});
}

class BadRate : public testing::TestWithParam<const char*> {};

TEST_P(BadRate, IsAUsageError) {
  expect_error([] { parse_rate(GetParam(), "--target-accuracy"); }, ErrorCategory::usage,
               {"--target-accuracy"});
}

INSTANTIATE_TEST_SUITE_P(Values, BadRate,
                         testing::Values("", "%", "-1%", "101%", "1.01", "nan", "nan%", "9O%", "1000"));

TEST(Names, ReadBackWhatTheyWrite) {
  for (const auto value : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    EXPECT_EQ(parse_precision(name(value)), value);
  }
  for (const auto value : {Scaling::weak, Scaling::strong}) EXPECT_EQ(parse_scaling(name(value)), value);
  for (const auto value : {LastBatch::keep, LastBatch::drop}) EXPECT_EQ(parse_last_batch(name(value)), value);
  for (int i = 0; i < phase_count; ++i)
    EXPECT_EQ(parse_phase(name(static_cast<Phase>(i))), static_cast<Phase>(i));
}

TEST(Names, TakeTensorFlowsPolicies) {
  EXPECT_EQ(parse_precision("mixed_float16"), Precision::fp16);
  EXPECT_EQ(parse_precision("mixed_bfloat16"), Precision::bf16);
}

TEST(Names, SuggestTheNearest) {
  expect_error([] { parse_precision("bf61"); }, ErrorCategory::usage,
               {"--precision", "'bf61'", "did you mean 'bf16'"});
  expect_error([] { parse_scaling("week"); }, ErrorCategory::usage, {"--scaling", "did you mean 'weak'"});
  expect_error([] { parse_last_batch("dorp"); }, ErrorCategory::usage,
               {"--last-batch", "did you mean 'drop'"});
  expect_error([] { parse_precision(""); }, ErrorCategory::usage, {"--precision", "known: fp32"});
}

TEST(ParseInjectedDelay, ReadsKeysInAnyOrder) {
  const InjectedDelay delay = parse_injected_delay("ms=2.5,rank=1,phase=backward");
  EXPECT_EQ(delay.rank, 1);
  EXPECT_EQ(delay.phase, Phase::backward);
  EXPECT_DOUBLE_EQ(delay.milliseconds, 2.5);
}

class BadDelay : public testing::TestWithParam<const char*> {};

TEST_P(BadDelay, IsAUsageError) {
  expect_error([] { parse_injected_delay(GetParam()); }, ErrorCategory::usage, {"--inject-delay"});
}

INSTANTIATE_TEST_SUITE_P(Values, BadDelay,
                         testing::Values("", "1", "rank=1", "rank=1,phase=input", "rank=-1,phase=input,ms=10",
                                         "rank=1,phase=inptu,ms=10", "rank=1,phase=input,ms=0",
                                         "rank=1,phase=input,ms=-5", "rank=1,phase=input,ms=nan",
                                         "rank=1,phase=input,ms=10s", "rank=1,phase=input,ms=10,rank=2",
                                         "rank=1,phase=input,ms=10,step=2", "rank=1;phase=input;ms=10"));

}  // namespace
}  // namespace dtrain::config
