#include "launch/lines.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace dtrain::launch {
namespace {

using testing::ElementsAre;

std::vector<std::string> lines_of(const std::vector<std::string>& pieces) {
  Lines lines;
  std::vector<std::string> taken;
  const auto take = [&](const std::string& line) { taken.push_back(line); };
  for (const auto& piece : pieces) lines.add(piece, take);
  lines.finish(take);
  return taken;
}

TEST(Lines, AreWholeHoweverTheyArrive) {
  EXPECT_THAT(lines_of({"one\ntw", "o", "\n\nthree\n"}), ElementsAre("one", "two", "", "three"));
  EXPECT_THAT(lines_of({"no end"}), ElementsAre("no end"));
  EXPECT_THAT(lines_of({}), ElementsAre());
}

TEST(Lines, OfAProgressLineTheLastStateRemains) {
  EXPECT_THAT(lines_of({"\r10 %\r20 %", "\r30 %\ndone\n"}), ElementsAre("30 %", "done"));
  EXPECT_THAT(lines_of({"dos\r\nnext\r", "\n"}), ElementsAre("dos", "next"));
}

TEST(Lines, WithoutEndAreCut) {
  const std::string endless(150'000, 'x');
  const auto taken = lines_of({endless});
  ASSERT_EQ(taken.size(), 3U);
  EXPECT_EQ(taken[0].size(), 65536U);
  EXPECT_EQ(taken[0] + taken[1] + taken[2], endless);
}

}  // namespace
}  // namespace dtrain::launch
