#include "train/crew.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "train/failure.hpp"

namespace dtrain::train {
namespace {

using ::testing::Each;

TEST(Crew, EveryThreadDoesEveryJobOnceAndStaysTheSame) {
  Crew crew(4);
  std::vector<std::thread::id> threads(4);
  crew.run([&](int index) { threads[static_cast<std::size_t>(index)] = std::this_thread::get_id(); });
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 4U);
  std::vector<int> calls(4);
  for (int job = 0; job < 200; ++job) {
    crew.run([&](int index) {
      EXPECT_EQ(threads[static_cast<std::size_t>(index)], std::this_thread::get_id());
      ++calls[static_cast<std::size_t>(index)];
    });
  }
  EXPECT_THAT(calls, Each(200));
}

TEST(Crew, GoesWithoutHavingWorked) {
  for (int i = 0; i < 20; ++i) const Crew crew(3);
}

Failure thrown(int rank, std::int64_t step, const std::function<void()>& thrower) {
  try {
    thrower();
  } catch (...) {
    return failure_in_flight(rank, step);
  }
  return {};
}

TEST(Failure, NamesRankAndStepAndKeepsCategoryAndAdvice) {
  const Failure failure = thrown(3, 7, [] { throw data_error("record 9 is bad", "look at it"); });
  EXPECT_EQ(failure.what, "step 7, rank 3: record 9 is bad");
  EXPECT_EQ(failure.category, ErrorCategory::data);
  EXPECT_EQ(failure.advice, "look at it");
  EXPECT_EQ(thrown(1, 0, [] { throw std::bad_alloc(); }).what, "rank 1: out of memory");
  EXPECT_EQ(thrown(1, 0, [] { throw std::bad_alloc(); }).category, ErrorCategory::environment);
  EXPECT_EQ(thrown(0, 2, [] { throw std::logic_error("x"); }).what, "step 2, rank 0: x");
  EXPECT_EQ(thrown(0, 2, [] { throw 5; }).what, "step 2, rank 0: unknown failure");
  EXPECT_TRUE(thrown(0, 2, [] { throw Interrupted(); }).interrupted);
  EXPECT_THROW(thrown(0, 2, [] { throw Interrupted(); }).raise(), Interrupted);
}

TEST(FailureLog, KeepsTheFirst) {
  FailureLog log;
  EXPECT_FALSE(log.any());
  EXPECT_TRUE(log.add({.rank = 2, .what = "first"}));
  EXPECT_FALSE(log.add({.rank = 0, .what = "echo"}));
  EXPECT_EQ(log.cause()->what, "first");
  log.clear();
  EXPECT_FALSE(log.any());
  EXPECT_FALSE(log.cause().has_value());
}

TEST(FailureLog, PrefersTheLowestCulpritWheneverItSpeaks) {
  FailureLog log;
  log.add({.rank = 0, .what = "saw the sum"});
  log.add({.rank = 3, .culprit = true, .what = "mine too"});
  log.add({.rank = 1, .culprit = true, .what = "mine"});
  log.add({.rank = 2, .what = "echo"});
  EXPECT_EQ(log.cause()->what, "mine");
}

}  // namespace
}  // namespace dtrain::train
