#include "dtrain/extend.hpp"

#include <gtest/gtest.h>

#include "dtrain/options.hpp"
#include "dtrain/strategy.hpp"

namespace {

using namespace dtrain;

// Registries are the process's, and ctest gives every test one of its own; in one process this is the first
// test.
TEST(Extend, AddsUntilTheFirstLookUp) {
  static const auto narrow = [] {
    return model::build("narrow", {3, 32, 32}, 10,
                        {{"dense1", model::Dense{10}, {model::image_input}, {}, {}}});
  };
  add_model("narrow", "one dense layer", [] { return narrow(); });
  EXPECT_THROW(add_model("narrow", "again", [] { return narrow(); }), std::logic_error);
  EXPECT_THROW(add_strategy("mirrored", "taken", nullptr), std::logic_error);

  const char* words[] = {"mine", "--model", "narrow",    "--gpus",   "1",   "--batch-size",
                         "4",    "--data",  "synthetic", "--device", "cpu", "--quiet"};
  const auto options = read_options(12, words, "Tests");
  ASSERT_TRUE(options);
  Strategy strategy(*options);
  EXPECT_EQ(strategy.model().parameter_count, 30730U);
  EXPECT_THROW(add_model("late", "", [] { return narrow(); }), std::logic_error);
  EXPECT_THROW(add_strategy("late", "", nullptr), std::logic_error);
}

TEST(ReadOptions, RefusesWhatItDoesNotKnow) {
  const char* words[] = {"mine", "--modl", "cnn"};
  EXPECT_THROW(read_options(3, words, "Tests"), Error);
  const char* help[] = {"mine", "--help"};
  EXPECT_FALSE(read_options(2, help, "Tests"));
}

}  // namespace
