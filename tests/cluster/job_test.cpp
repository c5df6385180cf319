#include "job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/error.hpp"

namespace dtrain::cluster {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The contract holds the same for members that are threads around a board and for members on a network.
using MakeJob = std::vector<std::unique_ptr<Member>> (*)(int);

std::vector<std::unique_ptr<Member>> over_grpc(int size) { return join_all(size); }

class Job : public testing::TestWithParam<MakeJob> {
 protected:
  std::vector<std::unique_ptr<Member>> make(int size) { return GetParam()(size); }
};

INSTANTIATE_TEST_SUITE_P(, Job, testing::Values(&make_local_job, &over_grpc),
                         [](const auto& tested) { return tested.param == &over_grpc ? "Grpc" : "Local"; });

TEST_P(Job, KnowsItsMembers) {
  const auto job = make(3);
  ASSERT_EQ(job.size(), 3U);
  for (const auto& member : job) {
    ASSERT_EQ(member->size(), 3);
    EXPECT_EQ(member->peers().at(1).describe(), "worker 1");
    EXPECT_EQ(member->peers().at(2).reached_at, "127.0.0.1");
    EXPECT_EQ(member->peers().at(2).process, ::getpid());
    EXPECT_EQ(member->clock_offset().offset_ns, 0);
    EXPECT_EQ(member->clock_offset().error_ns, 0);
  }
  EXPECT_EQ(job[2]->rank(), 2);
  leave_all(job);
  EXPECT_FALSE(job[0]->loss());
  EXPECT_FALSE(job[1]->loss());
}

TEST_P(Job, AGetWaitsForItsValue) {
  const auto job = make(2);
  const std::string text("x\0y", 3);
  EXPECT_EQ(job[0]->try_get("a"), std::nullopt);
  auto value = std::async(std::launch::async, [&] { return job[1]->get("a", soon()); });
  job[0]->set("a", text);
  EXPECT_EQ(value.get(), text);
  EXPECT_EQ(job[1]->try_get("a"), text);
  EXPECT_THROW(job[1]->set("a", "again"), Error);
  job[1]->erase("a");
  EXPECT_EQ(job[0]->try_get("a"), std::nullopt);
  job[1]->set("a", "again");
  EXPECT_EQ(job[0]->get("a", soon()), "again");
  leave_all(job);
}

TEST_P(Job, GathersByNameAndTurn) {
  const auto job = make(3);
  std::vector<std::vector<std::vector<std::string>>> seen(3);
  on_each(job, [&](Member& member) {
    const int rank = member.rank();
    for (int turn = 0; turn < 20; ++turn) {
      seen[static_cast<std::size_t>(rank)].push_back(
          member.all_gather("all", fmt::format("{}.{}", rank, turn), {0, 1, 2}, soon()));
      if (rank != 1) member.barrier("ends", {0, 2}, soon());
    }
  });
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
  EXPECT_THAT(seen[0].at(19), ElementsAre("0.19", "1.19", "2.19"));
  leave_all(job);
}

TEST_P(Job, TakesLargeValuesAndRefusesTooLargeOnes) {
  const auto job = make(2);
  const std::string large(5'000'000, 'v');
  job[1]->set("large", large);
  EXPECT_EQ(job[0]->get("large", soon()), large);
  on_each(job, [&](Member& member) {
    EXPECT_EQ(member.all_gather("large", large, {0, 1}, soon()).at(1), large);
    EXPECT_THROW(member.all_gather("too large", std::string(9'000'000, 'v'), {0, 1}, soon()), Error);
    EXPECT_THROW(member.set(std::string(5000, 'k'), ""), Error);
    EXPECT_THROW(member.set("x", std::string(17U << 20U, 'v')), Error);
  });
  leave_all(job);
  EXPECT_FALSE(job[0]->loss());
}

TEST_P(Job, AMeetingNamesTheLowestThatDidNotCome) {
  const auto job = make(4);
  auto three = std::async(std::launch::async, [&] {
    return ended([&] { job[3]->barrier("start", {0, 1, 2, 3}, soon()); });
  });
  const std::string what = "worker 1 did not come to 'start' within 200 ms";
  const auto meet = [&] { job[0]->barrier("start", {0, 1, 2, 3}, Deadline::in(Seconds(0.2))); };
  auto zero = std::async(std::launch::async, [&] { return ended(meet); });
  EXPECT_EQ(zero.get(), what);
  EXPECT_EQ(three.get(), what);
  EXPECT_EQ(ended([&] { job[2]->get("late", soon()); }), what);
  EXPECT_EQ(job[2]->loss()->rank, 1);
  EXPECT_EQ(ended([&] { job[2]->first_behind(1, {0}); }), what);
}

TEST_P(Job, AFollowersMeetingNamesTheLowestToo) {
  const auto job = make(3);
  EXPECT_EQ(ended([&] {
              job[2]->barrier("start", {0, 1, 2}, Deadline::in(Seconds(0.1)));
            }),
            "worker 0 did not come to 'start' within 100 ms");
}

TEST_P(Job, AGetNamesItsKey) {
  const auto job = make(2);
  EXPECT_EQ(ended([&] { job[1]->get("orders/7", Deadline::in(Seconds(0.02))); }),
            "worker 1 waited 20 ms for the value 'orders/7', which nobody has set");
}

TEST_P(Job, TheFirstFailureCounts) {
  const auto job = make(3);
  std::promise<Loss> told;
  const auto handle = job[2]->on_loss([&](const Loss& loss) { told.set_value(loss); });
  auto waiting = std::async(std::launch::async, [&] { return ended([&] { job[1]->get("never", soon()); }); });
  job[0]->fail(1, "failed: loss is not finite");
  job[0]->fail(0, "too late");
  EXPECT_EQ(told.get_future().get().reason, "failed: loss is not finite");
  EXPECT_EQ(waiting.get(), "worker 1 failed: loss is not finite");
  for (const auto& member : job) {
    ASSERT_TRUE(member->loss());
    EXPECT_EQ(member->loss()->rank, 1);
    EXPECT_THROW(member->check(), JobEnded);
    EXPECT_THROW(member->set("k", "v"), JobEnded);
    member->leave(soon());
  }
}

TEST_P(Job, AFollowersFailureReachesAll) {
  const auto job = make(3);
  auto waiting = std::async(std::launch::async, [&] { return ended([&] { job[0]->get("never", soon()); }); });
  job[2]->fail(2, "failed: no memory");
  EXPECT_EQ(waiting.get(), "worker 2 failed: no memory");
  EXPECT_EQ(ended([&] { job[1]->get("never", soon()); }), "worker 2 failed: no memory");
}

TEST_P(Job, TellsOfALossThatWasThere) {
  const auto job = make(2);
  job[0]->fail(0, "failed");
  EXPECT_EQ(ended([&] { job[1]->get("never", soon()); }), "worker 0 failed");
  std::promise<int> told;
  const auto handle = job[1]->on_loss([&](const Loss& loss) { told.set_value(loss.rank); });
  EXPECT_EQ(told.get_future().get(), 0);
}

TEST_P(Job, AHandleWaitsForItsCall) {
  const auto job = make(2);
  std::promise<void> inside;
  std::atomic<bool> over = false;
  auto handle = job[1]->on_loss([&](const Loss&) {
    inside.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    over = true;
  });
  auto dropped = job[1]->on_loss([&](const Loss&) { ADD_FAILURE() << "nobody holds this handle"; });
  dropped.reset();
  job[0]->fail(0, "failed");
  inside.get_future().get();
  handle.reset();
  EXPECT_TRUE(over);
}

TEST_P(Job, FindsTheLowestThatIsBehind) {
  const auto job = make(4);
  job[0]->announce(5);
  job[1]->announce(4);
  job[2]->announce(5);
  EXPECT_EQ(job[0]->first_behind(5, {0, 1, 2, 3}), 1);
  EXPECT_EQ(job[3]->first_behind(5, {0, 2, 3}), 3);
  EXPECT_EQ(job[3]->first_behind(5, {0, 2}), std::nullopt);
  leave_all(job);
}

TEST_P(Job, AMemberThatGoesEarlyEndsTheJob) {
  auto job = make(3);
  job[1].reset();
  EXPECT_EQ(ended([&] { job[0]->get("never", soon()); }), "worker 1 has gone before the job was over");
  EXPECT_EQ(ended([&] { job[2]->get("never", soon()); }), "worker 1 has gone before the job was over");
}

TEST_P(Job, AChiefThatGoesEarlyEndsTheJob) {
  auto job = make(3);
  job[0].reset();
  EXPECT_EQ(ended([&] { job[2]->get("never", soon()); }), "worker 0 has gone before the job was over");
  EXPECT_EQ(ended([&] { job[1]->get("never", soon()); }), "worker 0 has gone before the job was over");
}

TEST_P(Job, RefusesRanksThatCannotMeet) {
  const auto job = make(2);
  EXPECT_THROW(job[0]->barrier("x", {1}, soon()), Error);
  EXPECT_THROW(job[1]->barrier("x", {1, 0}, soon()), Error);
  EXPECT_THROW(job[0]->barrier("x", {0, 2}, soon()), Error);
  EXPECT_FALSE(job[0]->loss());
  leave_all(job);
}

TEST_P(Job, LeavingWaitsForAll) {
  const auto job = make(3);
  std::atomic<int> came = 0;
  on_each(job, [&](Member& member) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * member.rank()));
    ++came;
    member.leave(soon());
    EXPECT_EQ(came, 3);
    EXPECT_FALSE(member.loss());
  });
}

TEST_P(Job, NobodyWaitsAfterItsEnd) {
  const auto job = make(2);
  auto waiting = std::async(std::launch::async, [&] { EXPECT_THROW(job[1]->get("never", soon()), Error); });
  leave_all(job);
  waiting.get();
  on_each(job, [](Member& member) {
    EXPECT_THROW(member.get("never", soon()), Error);
    EXPECT_THROW(member.barrier("never", {0, 1}, soon()), Error);
    EXPECT_THROW(member.set("a", "b"), Error);
    member.leave(soon());
    EXPECT_FALSE(member.loss());
  });
}

TEST_P(Job, LeavingEndsByItsDeadline) {
  const auto job = make(2);
  on_each(job, [&](Member& member) {
    if (member.rank() == 1) member.leave(Deadline::in(Seconds(0.05)));
  });
  EXPECT_FALSE(job[0]->loss());
}

}  // namespace
}  // namespace dtrain::cluster
