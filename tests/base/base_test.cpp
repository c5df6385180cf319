#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/random.hpp"
#include "base/registry.hpp"
#include "base/text.hpp"

namespace {

using namespace dtrain;

TEST(Error, CategoryDecidesTheExitCode) {
  EXPECT_EQ(static_cast<int>(exit_code(ErrorCategory::usage)), 2);
  EXPECT_EQ(static_cast<int>(exit_code(ErrorCategory::environment)), 3);
  EXPECT_EQ(static_cast<int>(exit_code(ErrorCategory::data)), 4);
  EXPECT_EQ(static_cast<int>(exit_code(ErrorCategory::run)), 5);
}

TEST(Registry, UnknownNameListsTheKnownAndTheNearest) {
  Registry<int> table("fruit");
  table.add("apple", "", 1);
  table.add("pear", "", 2);
  table.alias("Apple", "apple");
  EXPECT_EQ(table.at("Apple").value, 1);
  try {
    table.at("appel");
    FAIL() << "an unknown name was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_STREQ(error.what(), "unknown fruit 'appel'");
    EXPECT_EQ(error.advice(), "did you mean 'apple'? known: apple, pear");
  }
}

TEST(Registry, DuplicateIsAnErrorInTheProgram) {
  Registry<int> table("fruit");
  table.add("apple", "", 1);
  EXPECT_THROW(table.add("apple", "", 2), std::logic_error);
  EXPECT_THROW(table.alias("apple", "apple"), std::logic_error);
  EXPECT_THROW(table.alias("other", "plum"), Error);
}

TEST(Text, NearestNeedsALikelyTypingError) {
  const std::vector<std::string> words = {"mirrored", "single"};
  EXPECT_EQ(nearest("mirored", words), "mirrored");
  EXPECT_EQ(nearest("sngle", words), "single");
  EXPECT_EQ(nearest("miror", words), "mirrored");
  EXPECT_EQ(nearest("xyz", words), std::nullopt);
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b,", ','), (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
}

TEST(Text, UnitsFitTheirMagnitude) {
  EXPECT_EQ(format_duration(2.5), "2.50 s");
  EXPECT_EQ(format_duration(0.0125), "12.50 ms");
  EXPECT_EQ(format_duration(3e-6), "3.0 us");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(100), "100 B");
}

TEST(Random, GivesTheNumbersOfTheAlgorithm) {
  // SplitMix64 from state 0, as published with the generator.
  EXPECT_EQ(mix(0), 0xe220a8397b1dcdafULL);
  Random a(7);
  Random b(7);
  Random c(8);
  const auto first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, c.next());
}

TEST(Random, BelowIsEvenAndInRange) {
  Random random(1);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 70'000; ++i) ++counts[random.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
}

TEST(Random, NormalHasUnitVariance) {
  Random random(3);
  double sum = 0.0;
  double squares = 0.0;
  constexpr int n = 100'000;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0.0, 0.02);
  EXPECT_NEAR(squares / n, 1.0, 0.02);
}

std::uint64_t hash_of(std::vector<float> values) {
  Hash hash;
  hash.add(std::span<const float>(values));
  return hash.value();
}

TEST(Hash, SeesEveryBitOrderAndLength) {
  const std::vector<float> base = {1.0F, 2.0F, 3.0F};
  std::set<std::uint64_t> values = {hash_of(base),
                                    hash_of({2.0F, 1.0F, 3.0F}),
                                    hash_of({1.0F, 2.0F}),
                                    hash_of({1.0F, 2.0F, 3.0F, 0.0F}),
                                    hash_of({1.0F, 2.0F, std::nextafter(3.0F, 4.0F)}),
                                    hash_of({})};
  EXPECT_EQ(values.size(), 6U);
  EXPECT_EQ(hash_of(base), hash_of(base));
}

}  // namespace
