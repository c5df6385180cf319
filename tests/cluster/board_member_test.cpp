#include "cluster/board_member.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace dtrain::cluster {
namespace {

// A chief whose clock is ahead, and whose answers take a while, each on one way more than on the other.
class DistantChief : public Link {
 public:
  explicit DistantChief(std::int64_t ahead_ns) : ahead_ns_(ahead_ns) {}
  void ask(std::uint64_t id, Question question, Reply reply) override {
    ASSERT_TRUE(std::holds_alternative<ReadClock>(question));
    std::this_thread::sleep_for(std::chrono::microseconds(100 + 300 * (id % 4)));
    Answer answer;
    answer.clock_ns = now_ns() + ahead_ns_;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    reply(std::move(answer));
  }
  void expire(std::uint64_t, Seconds) override {}
  void announce(Progress) override {}
  Seconds progress_age() const override { return Seconds(0.0); }
  void fail(int, const std::string&) override {}
  void close() override {}

 private:
  const std::int64_t ahead_ns_;
};

TEST(BoardMember, TellsHowFarTheChiefsClockIsOffAndHowWellItKnows) {
  std::vector<Peer> peers(2);
  peers[0].boot = "one host";
  peers[1].boot = "another";
  peers[1].rank = 1;
  for (const std::int64_t ahead : {std::int64_t{5'000'000'000}, std::int64_t{-7'000'000'000}}) {
    BoardMember member(1, peers, std::make_shared<LossBell>(), std::make_unique<DistantChief>(ahead));
    const auto found = member.clock_offset();
    EXPECT_GE(found.error_ns, 100'000);
    EXPECT_LE(std::abs(found.offset_ns - ahead), found.error_ns);
  }
}

}  // namespace
}  // namespace dtrain::cluster
