#include <gtest/gtest.h>

#include "launch/arguments.hpp"

namespace dtrain::launch {
namespace {

using Words = std::vector<std::string>;

TEST(Arguments, TheLastValueOfAFlagCounts) {
  EXPECT_EQ(last_value({"train", "--out", "a", "--out=b"}, "--out"), "b");
  EXPECT_EQ(last_value({"train", "--out=a", "--out", "b"}, "--out"), "b");
  EXPECT_EQ(last_value({"train", "--out="}, "--out"), "");
  EXPECT_EQ(last_value({"train", "--output", "a"}, "--out"), std::nullopt);
  EXPECT_EQ(last_value({"train", "--out"}, "--out"), std::nullopt);
}

TEST(Arguments, AValueReplacesEarlierOnes) {
  const Words command{"train", "--resume", "old", "--epochs", "2", "--resume=older"};
  EXPECT_EQ(with_value(command, "--resume", "new"), (Words{"train", "--epochs", "2", "--resume", "new"}));
  EXPECT_EQ(with_value({"train"}, "--resume", "new"), (Words{"train", "--resume", "new"}));
}

}  // namespace
}  // namespace dtrain::launch
