#include "predict/counts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace dtrain::predict {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Counts, AreListsAndRanges) {
  EXPECT_THAT(parse_counts("8", "--replicas"), ElementsAre(8));
  EXPECT_THAT(parse_counts("64,8,8", "--replicas"), ElementsAre(8, 64));
  EXPECT_THAT(parse_counts("1..4", "--replicas"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(parse_counts("2..3,1000000", "--replicas"), ElementsAre(2, 3, 1'000'000));
  EXPECT_EQ(parse_counts("1..64", "--replicas").size(), 64U);
}

TEST(Counts, OfAnythingElseNameTheFlag) {
  const std::pair<const char*, const char*> all[] = {
      {"", "whole number"}, {"0", "0"},         {"1000001", "1000001"}, {"4,x", "x"},
      {"1..", "number"},    {"..4", "number"},  {"4..1", "downwards"},  {"1...4", "number"},
      {"1..65", "64"},      {"1..64,65", "64"}, {"1..1000000", "64"},   {"1..2..3", "number"}};
  for (const auto& [text, word] : all) {
    try {
      parse_counts(text, "--replicas");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::usage) << text;
      EXPECT_THAT(error.what(), HasSubstr("--replicas"));
      EXPECT_THAT(std::string(error.what()) + error.advice(), HasSubstr(word)) << text;
    }
  }
}

}  // namespace
}  // namespace dtrain::predict
