#include <gmock/gmock.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "datasets/pipeline.hpp"
#include "fixtures.hpp"

namespace dtrain::datasets {
namespace {

std::shared_ptr<const Dataset> numbered(std::size_t size) { return std::make_shared<NumberedDataset>(size); }

TEST(Prefetch, HandsOverTheSameBuffersAgainAndAgain) {
  const auto pipeline = make_pipeline({.dataset = numbered(64), .global_batch = 8, .prefetch = 2});
  std::vector<const float*> seen;
  for (int i = 0; i < 12; ++i) seen.push_back(pipeline->next().images);
  for (int i = 3; i < 12; ++i) EXPECT_EQ(seen[i], seen[i - 3]);
}

TEST(Prefetch, BatchStaysUntilTheNextIsAskedFor) {
  const auto pipeline =
      make_pipeline({.dataset = numbered(64), .shuffle = 0, .global_batch = 4, .prefetch = 1});
  for (int step = 0; step < 16; ++step) {
    const MicroBatch& batch = pipeline->next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < 4; ++i) ASSERT_EQ(batch.labels[i], step * 4 + i);
  }
}

// Counts its reads; fails at one image if asked to; can hold every reader up.
class TroubledDataset final : public Dataset {
 public:
  explicit TroubledDataset(std::size_t size, std::size_t bad = ~std::size_t{0}) : inner_(size), bad_(bad) {}
  const std::string& name() const override { return inner_.name(); }
  std::size_t size() const override { return inner_.size(); }
  int label(std::size_t index) const override { return inner_.label(index); }
  std::span<const std::uint8_t, pixels_per_image> pixels(std::size_t index) const override {
    ++reads;
    while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (index == bad_) throw data_error("image went bad", "");
    return inner_.pixels(index);
  }
  std::string checksum() const override { return ""; }

  mutable std::atomic<int> reads{0};
  std::atomic<bool> held{false};

 private:
  NumberedDataset inner_;
  std::size_t bad_;
};

TEST(Prefetch, ThreadPreparesNoMoreThanAskedFor) {
  const auto dataset = std::make_shared<TroubledDataset>(100);
  const auto pipeline = make_pipeline({.dataset = dataset, .global_batch = 5, .prefetch = 3});
  pipeline->next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(dataset->reads, 4 * 5);
}

TEST(Prefetch, NothingIsPreparedAheadWithoutPrefetch) {
  const auto dataset = std::make_shared<TroubledDataset>(100);
  const auto pipeline = make_pipeline({.dataset = dataset, .global_batch = 5, .prefetch = 0});
  EXPECT_EQ(dataset->reads, 0);
  pipeline->next();
  EXPECT_EQ(dataset->reads, 5);
}

TEST(Prefetch, ErrorsOfTheThreadComeOutInOrder) {
  const auto dataset = std::make_shared<TroubledDataset>(20, 11);
  const auto pipeline = make_pipeline({.dataset = dataset, .shuffle = 0, .global_batch = 4, .prefetch = 2});
  EXPECT_EQ(pipeline->next().labels[0], 0);
  EXPECT_EQ(pipeline->next().labels[0], 4);
  EXPECT_STREQ(error_of([&] { pipeline->next(); }).what(), "image went bad");
  EXPECT_STREQ(error_of([&] { pipeline->next(); }).what(), "image went bad");
  pipeline->seek(3);
  EXPECT_EQ(pipeline->next().labels[0], 12);
}

TEST(Prefetch, WaitHasADeadlineThatNamesTheRank) {
  const auto dataset = std::make_shared<TroubledDataset>(20);
  dataset->held = true;
  const auto pipeline = make_pipeline({.dataset = dataset,
                                       .global_batch = 4,
                                       .rank = 1,
                                       .replicas = 2,
                                       .prefetch = 1,
                                       .timeout = Seconds(0.02)});
  const Error error = error_of([&] { pipeline->next(); });
  dataset->held = false;
  EXPECT_EQ(error.category(), ErrorCategory::run);
  EXPECT_THAT(error.what(), testing::HasSubstr("rank 1"));
}

TEST(Prefetch, CanBeDroppedAtAnyTime) {
  for (int taken = 0; taken < 5; ++taken) {
    const auto pipeline = make_pipeline({.dataset = numbered(50), .global_batch = 5, .prefetch = 2});
    for (int i = 0; i < taken; ++i) pipeline->next();
  }
}

// Tells on which cores it is read.
class CoreDataset final : public Dataset {
 public:
  const std::string& name() const override { return inner_.name(); }
  std::size_t size() const override { return inner_.size(); }
  int label(std::size_t index) const override { return inner_.label(index); }
  std::span<const std::uint8_t, pixels_per_image> pixels(std::size_t index) const override {
    cpu_set_t set;
    ::sched_getaffinity(0, sizeof(set), &set);
    allowed = CPU_COUNT(&set);
    core = ::sched_getcpu();
    return inner_.pixels(index);
  }
  std::string checksum() const override { return ""; }
  mutable std::atomic<int> allowed{0};
  mutable std::atomic<int> core{-1};

 private:
  NumberedDataset inner_{20};
};

TEST(Prefetch, ThreadStaysOnTheReplicasCores) {
  const int here = ::sched_getcpu();
  const auto dataset = std::make_shared<CoreDataset>();
  const auto pipeline = make_pipeline({.dataset = dataset, .global_batch = 5, .cores = {here}});
  pipeline->next();
  EXPECT_EQ(dataset->allowed, 1);
  EXPECT_EQ(dataset->core, here);
}

TEST(Prefetch, CoresThatAreNotThereAreAnError) {
  const auto pipeline = make_pipeline({.dataset = numbered(20), .global_batch = 5, .cores = {1000}});
  const Error error = error_of([&] { pipeline->next(); });
  EXPECT_EQ(error.category(), ErrorCategory::environment);
  EXPECT_THAT(error.what(), testing::HasSubstr("1000"));
}

}  // namespace
}  // namespace dtrain::datasets
