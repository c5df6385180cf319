#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/error.hpp"
#include "cluster/member.hpp"

namespace dtrain::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Deadline soon() { return Deadline::in(Seconds(20.0)); }

std::string ended(const std::function<void()>& call) {
  try {
    call();
  } catch (const JobEnded& error) {
    return error.what();
  }
  return "did not end";
}

void leave_all(std::vector<std::unique_ptr<Member>>& members) {
  std::vector<std::thread> threads;
  for (auto& member : members) threads.emplace_back([&] { member->leave(soon()); });
  for (auto& thread : threads) thread.join();
}

TEST(LocalJob, KnowsItsMembers) {
  auto job = make_local_job(3);
  ASSERT_EQ(job.size(), 3U);
  EXPECT_EQ(job[2]->rank(), 2);
  EXPECT_EQ(job[2]->size(), 3);
  EXPECT_EQ(job[0]->peers().at(1).describe(), "worker 1");
  EXPECT_EQ(job[1]->clock_offset().offset_ns, 0);
  leave_all(job);
  EXPECT_FALSE(job[0]->loss());
}

TEST(LocalJob, AGetWaitsForItsValue) {
  auto job = make_local_job(2);
  EXPECT_EQ(job[0]->try_get("a"), std::nullopt);
  auto value = std::async(std::launch::async, [&] { return job[1]->get("a", soon()); });
  job[0]->set("a", std::string("x\0y", 3));
  EXPECT_EQ(value.get(), std::string("x\0y", 3));
  EXPECT_EQ(job[1]->try_get("a"), std::string("x\0y", 3));
  EXPECT_THROW(job[1]->set("a", "again"), Error);
  job[1]->erase("a");
  EXPECT_EQ(job[0]->try_get("a"), std::nullopt);
  job[1]->set("a", "again");
  leave_all(job);
}

TEST(LocalJob, GathersByNameAndTurn) {
  auto job = make_local_job(3);
  const auto meet = [&](int rank) {
    std::vector<std::vector<std::string>> seen;
    for (int turn = 0; turn < 20; ++turn) {
      seen.push_back(job[rank]->all_gather("all", fmt::format("{}.{}", rank, turn), {0, 1, 2}, soon()));
      if (rank != 1) job[rank]->all_gather("ends", fmt::format("{}", rank), {0, 2}, soon());
    }
    return seen;
  };
  auto one = std::async(std::launch::async, meet, 1);
  auto two = std::async(std::launch::async, meet, 2);
  const auto zero = meet(0);
  EXPECT_EQ(zero, one.get());
  EXPECT_EQ(zero, two.get());
  EXPECT_THAT(zero.at(19), ElementsAre("0.19", "1.19", "2.19"));
  leave_all(job);
}

TEST(LocalJob, AMeetingNamesTheLowestThatDidNotCome) {
  auto job = make_local_job(4);
  auto three = std::async(std::launch::async, [&] {
    return ended([&] { job[3]->barrier("start", {0, 1, 2, 3}, soon()); });
  });
  EXPECT_THAT(ended([&] {
                job[0]->barrier("start", {0, 1, 2, 3}, Deadline::in(Seconds(0.05)));
              }),
              HasSubstr("worker 1 did not come to 'start' within 50 ms"));
  EXPECT_THAT(three.get(), HasSubstr("worker 1 did not come to 'start' within 50 ms"));
  EXPECT_EQ(job[2]->loss()->rank, 1);
  EXPECT_THAT(ended([&] { job[2]->set("late", ""); }), HasSubstr("worker 1 did not come"));
}

TEST(LocalJob, AGetNamesItsKey) {
  auto job = make_local_job(2);
  EXPECT_THAT(ended([&] { job[1]->get("orders/7", Deadline::in(Seconds(0.02))); }),
              HasSubstr("worker 1 waited 20 ms for the value 'orders/7'"));
}

TEST(LocalJob, TheFirstFailureCounts) {
  auto job = make_local_job(3);
  std::promise<Loss> told;
  const auto handle = job[2]->on_loss([&](const Loss& loss) { told.set_value(loss); });
  auto waiting = std::async(std::launch::async, [&] { return ended([&] { job[1]->get("never", soon()); }); });
  job[0]->fail(1, "failed: loss is not finite");
  job[2]->fail(0, "too late");
  EXPECT_EQ(told.get_future().get().reason, "failed: loss is not finite");
  EXPECT_EQ(waiting.get(), "worker 1 failed: loss is not finite");
  for (const auto& member : job) {
    ASSERT_TRUE(member->loss());
    EXPECT_EQ(member->loss()->rank, 1);
    EXPECT_THROW(member->check(), JobEnded);
    member->leave(soon());
  }
}

TEST(LocalJob, TellsOfALossThatWasThere) {
  auto job = make_local_job(2);
  job[0]->fail(0, "failed");
  std::promise<int> told;
  const auto handle = job[1]->on_loss([&](const Loss& loss) { told.set_value(loss.rank); });
  EXPECT_EQ(told.get_future().get(), 0);
}

TEST(LocalJob, AHandleWaitsForItsCall) {
  auto job = make_local_job(2);
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

TEST(LocalJob, FindsTheLowestThatIsBehind) {
  auto job = make_local_job(4);
  job[0]->announce(5);
  job[1]->announce(4);
  job[2]->announce(5);
  EXPECT_EQ(job[0]->first_behind(5, {0, 1, 2, 3}), 1);
  EXPECT_EQ(job[0]->first_behind(5, {0, 2, 3}), 3);
  EXPECT_EQ(job[3]->first_behind(5, {0, 2}), std::nullopt);
  leave_all(job);
}

TEST(LocalJob, AMemberThatGoesEarlyEndsTheJob) {
  auto job = make_local_job(2);
  job[1].reset();
  EXPECT_EQ(ended([&] { job[0]->check(); }), "worker 1 has gone before the job was over");
}

TEST(LocalJob, RefusesRanksThatCannotMeet) {
  auto job = make_local_job(2);
  EXPECT_THROW(job[0]->barrier("x", {1}, soon()), Error);
  EXPECT_THROW(job[0]->barrier("x", {1, 0}, soon()), Error);
  EXPECT_THROW(job[0]->barrier("x", {0, 2}, soon()), Error);
  EXPECT_THROW(job[0]->set(std::string(5000, 'k'), ""), Error);
  leave_all(job);
}

}  // namespace
}  // namespace dtrain::cluster
