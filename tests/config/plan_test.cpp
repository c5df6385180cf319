#include "config/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "expect_error.hpp"

namespace dtrain::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Base = RunPlan::Base;

Inventory cpu_with(int cores) {
  Inventory inventory;
  inventory.device = "cpu";
  for (int i = 0; i < cores; ++i) inventory.cores.push_back(10 + i);
  return inventory;
}

Inventory gpus(int count) {
  Inventory inventory = cpu_with(4);
  inventory.device = "cuda";
  inventory.gpus = count;
  return inventory;
}

Options with_replicas(std::vector<int> replicas, bool swept = false) {
  Options options;
  options.replicas = std::move(replicas);
  options.replicas_swept = swept;
  return options;
}

std::vector<std::string> ids(const Plan& plan) {
  std::vector<std::string> out;
  for (const auto& run : plan.runs) out.push_back(run.id);
  return out;
}

int images_of(const RunPlan& run) {
  return std::accumulate(run.replica_batch.begin(), run.replica_batch.end(), 0);
}

TEST(BenchPlan, MeasuresPowersOfTwoBelowN) {
  EXPECT_THAT(ids(make_bench_plan(with_replicas({4}), cpu_with(8))),
              ElementsAre("plain", "mirrored-1", "mirrored-2", "mirrored-4"));
  EXPECT_THAT(ids(make_bench_plan(with_replicas({6}), cpu_with(8))),
              ElementsAre("plain", "mirrored-1", "mirrored-2", "mirrored-4", "mirrored-6"));
  EXPECT_THAT(ids(make_bench_plan(with_replicas({1}), cpu_with(8))), ElementsAre("plain", "mirrored-1"));
}

TEST(BenchPlan, NotesFlagsThatHaveNoEffectHere) {
  Options options = with_replicas({1});
  EXPECT_TRUE(make_bench_plan(options, cpu_with(4)).notes.empty());
  options.allocator = Allocator::async;
  options.cuda_graphs = false;
  EXPECT_THAT(make_bench_plan(options, cpu_with(4)).notes,
              ElementsAre("--allocator async, --no-cuda-graphs have no effect on CPU replicas"));
  EXPECT_TRUE(make_bench_plan(options, gpus(1)).notes.empty());
  options.threads_per_replica = 2;
  EXPECT_THAT(make_train_plan(options, gpus(1)).notes,
              ElementsAre("--threads-per-replica 2 has no effect on GPU replicas"));
}

TEST(BenchPlan, MeasuresASweepExactlyAndOne) {
  EXPECT_THAT(ids(make_bench_plan(with_replicas({3, 5}, true), cpu_with(8))),
              ElementsAre("plain", "mirrored-1", "mirrored-3", "mirrored-5"));
  EXPECT_THAT(ids(make_bench_plan(with_replicas({1, 2}, true), cpu_with(8))),
              ElementsAre("plain", "mirrored-1", "mirrored-2"));
}

TEST(BenchPlan, MarksBothBases) {
  const Plan plan = make_bench_plan(with_replicas({2}), cpu_with(2));
  EXPECT_EQ(plan.runs[0].base, Base::plain);
  EXPECT_EQ(plan.runs[0].strategy, "single");
  EXPECT_EQ(plan.runs[0].replicas, 1);
  EXPECT_EQ(plan.runs[1].base, Base::strategy);
  EXPECT_EQ(plan.runs[1].strategy, "mirrored");
  EXPECT_EQ(plan.runs[2].base, Base::none);
}

TEST(BenchPlan, TakesEveryDeviceWhenNotAsked) {
  EXPECT_EQ(make_bench_plan(Options{}, cpu_with(2)).runs.back().replicas, 2);
  EXPECT_EQ(make_bench_plan(Options{}, gpus(3)).runs.back().replicas, 3);
  Options wide;
  wide.threads_per_replica = 2;
  EXPECT_EQ(make_bench_plan(wide, cpu_with(5)).runs.back().replicas, 2);
  Inventory limited = cpu_with(8);
  limited.cpu_quota = 2.5;
  EXPECT_EQ(make_bench_plan(Options{}, limited).runs.back().replicas, 2);
}

TEST(BenchPlan, SingleIsThePlainLoopAlone) {
  Options options;
  options.strategy = "single";
  EXPECT_THAT(ids(make_bench_plan(options, cpu_with(8))), ElementsAre("plain"));
  options.replicas = {4};
  expect_error([&] { make_bench_plan(options, cpu_with(8)); }, ErrorCategory::usage,
               {"single", "4", "--strategy mirrored"});
}

TEST(BenchPlan, HoldsTheReplicaBatchUnderWeakScaling) {
  const Plan plan = make_bench_plan(with_replicas({4}), cpu_with(4));
  EXPECT_EQ(plan.scaling, Scaling::weak);
  for (const auto& run : plan.runs) {
    EXPECT_EQ(run.global_batch, 64 * run.replicas);
    for (const int batch : run.replica_batch) EXPECT_EQ(batch, 64);
  }
}

TEST(BenchPlan, CountsAccumulationInTheGlobalBatch) {
  Options options = with_replicas({2});
  options.batch_size = 8;
  options.accumulate = 4;
  const Plan plan = make_bench_plan(options, cpu_with(2));
  EXPECT_EQ(plan.runs.back().global_batch, 64);
  EXPECT_THAT(plan.runs.back().replica_batch, ElementsAre(8, 8));
}

TEST(BenchPlan, HoldsTheGlobalBatchUnderStrongScaling) {
  Options options = with_replicas({4});
  options.global_batch = 128;
  const Plan plan = make_bench_plan(options, cpu_with(4));
  EXPECT_EQ(plan.scaling, Scaling::strong);
  for (const auto& run : plan.runs) EXPECT_EQ(run.global_batch, 128);
  EXPECT_THAT(plan.runs[0].replica_batch, ElementsAre(128));
  EXPECT_THAT(plan.runs[3].replica_batch, ElementsAre(32, 32, 32, 32));
}

TEST(BenchPlan, StrongScalingTakesTheBatchSizeAtTheLargestN) {
  Options options = with_replicas({4});
  options.scaling = Scaling::strong;
  options.batch_size = 16;
  const Plan plan = make_bench_plan(options, cpu_with(4));
  for (const auto& run : plan.runs) EXPECT_EQ(run.global_batch, 64);
  EXPECT_THAT(plan.runs.back().replica_batch, ElementsAre(16, 16, 16, 16));
}

TEST(BenchPlan, DealsAnUnevenGlobalBatch) {
  Options options = with_replicas({4});
  options.global_batch = 10;
  const Plan plan = make_bench_plan(options, cpu_with(4));
  EXPECT_THAT(plan.runs.back().replica_batch, ElementsAre(3, 3, 2, 2));
  EXPECT_EQ(images_of(plan.runs.back()), 10);
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("mirrored-4")));
}

TEST(BenchPlan, SizesMicroStepsByTheLargestShare) {
  Options options = with_replicas({2});
  options.global_batch = 11;  // 6 and 5 images, each in two micro-steps
  options.accumulate = 2;
  EXPECT_THAT(make_bench_plan(options, cpu_with(2)).runs.back().replica_batch, ElementsAre(3, 3));
}

TEST(BenchPlan, AgreesWithConsistentBatches) {
  Options options = with_replicas({4});
  options.batch_size = 32;
  options.global_batch = 128;
  EXPECT_EQ(make_bench_plan(options, cpu_with(4)).runs.back().global_batch, 128);
}

TEST(BenchPlan, RefusesContradictingBatches) {
  Options options = with_replicas({4});
  options.batch_size = 32;
  options.global_batch = 100;
  expect_error([&] { make_bench_plan(options, cpu_with(4)); }, ErrorCategory::usage,
               {"--batch-size 32", "--global-batch 100", "--global-batch 128"});
}

TEST(BenchPlan, RefusesAGlobalBatchBelowN) {
  Options options = with_replicas({4});
  options.global_batch = 3;
  expect_error([&] { make_bench_plan(options, cpu_with(4)); }, ErrorCategory::usage,
               {"--global-batch 3", "4 replicas", "--global-batch 4", "--replicas 3"});
  options.global_batch = 7;
  options.accumulate = 2;
  expect_error([&] { make_bench_plan(options, cpu_with(4)); }, ErrorCategory::usage, {"--global-batch 8"});
}

TEST(BenchPlan, RefusesAGlobalBatchUnderWeakScaling) {
  Options options = with_replicas({4});
  options.global_batch = 128;
  options.scaling = Scaling::weak;
  expect_error([&] { make_bench_plan(options, cpu_with(4)); }, ErrorCategory::usage,
               {"--global-batch 128", "weak", "--batch-size 32"});
}

// As of pipelines of two stages.
int one_for_two(const Options&, int replicas) { return std::max(replicas / 2, 1); }
int all_together(const Options&, int) { return 1; }

TEST(BenchPlan, RanksOfOneShareTakeTheSameImages) {
  Options options = with_replicas({4});
  options.global_batch = 9;
  const Plan pairs = make_bench_plan(options, cpu_with(4), one_for_two);
  EXPECT_THAT(pairs.runs.back().replica_batch, ElementsAre(5, 5, 4, 4));
  EXPECT_THAT(pairs.notes, ElementsAre(HasSubstr("mirrored-4: 2 groups of replicas do not divide the global "
                                                 "batch of 9, so they take 5 or 4 images each")));
  const Plan together = make_bench_plan(options, cpu_with(4), all_together);
  EXPECT_THAT(together.runs.back().replica_batch, ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(together.notes, IsEmpty());
}

TEST(BenchPlan, NeedsAnImageForEveryShareAndNoMore) {
  Options options = with_replicas({4});
  options.global_batch = 2;
  EXPECT_EQ(make_bench_plan(options, cpu_with(4), one_for_two).runs.back().global_batch, 2);
  expect_error([&] { make_bench_plan(options, cpu_with(4)); }, ErrorCategory::usage,
               {"smaller than 4 replicas", "--global-batch 4", "--replicas 2"});
  options.global_batch = 1;
  EXPECT_EQ(make_train_plan(options, cpu_with(4), all_together).runs.back().global_batch, 1);
  expect_error([&] { make_bench_plan(options, cpu_with(4), one_for_two); }, ErrorCategory::usage,
               {"smaller than 2 groups of replicas", "--global-batch 2"});
}

TEST(BenchPlan, SideBySideTheStrategyWithMostSharesSaysHowManyImages) {
  Options options = with_replicas({4});
  options.side_by_side = {"tensor", "mirrored"};
  options.global_batch = 2;
  const auto shares = [](const Options& one, int replicas) {
    return one.strategy == "tensor" ? 1 : replicas;
  };
  expect_error([&] { make_bench_plan(options, cpu_with(4), shares); }, ErrorCategory::usage,
               {"smaller than 4 replicas"});
}

TEST(BenchPlan, NotesAPluginThatNothingIsRunBy) {
  Options options = with_replicas({1});
  options.pjrt_plugin = "plugin.so";
  EXPECT_THAT(make_bench_plan(options, cpu_with(4)).notes,
              ElementsAre("--pjrt-plugin plugin.so has no effect on CPU replicas"));
  Inventory devices = gpus(1);
  devices.device = "tpu";
  EXPECT_THAT(make_bench_plan(options, devices).notes, IsEmpty());
  options.memory_growth = true;
  EXPECT_THAT(make_bench_plan(options, devices).notes,
              ElementsAre("--memory-growth has no effect on devices behind a PJRT plugin"));
}

TEST(BenchPlan, RefusesABatchBeyondAnInteger) {
  Options options = with_replicas({4});
  options.batch_size = 2'000'000'000;
  expect_error([&] { make_bench_plan(options, cpu_with(4)); }, ErrorCategory::usage,
               {"8000000000", "--batch-size 536870911"});
}

TEST(BenchPlan, PinsEveryRankToItsOwnShare) {
  Options options = with_replicas({2});
  options.threads_per_replica = 2;
  const Plan plan = make_bench_plan(options, cpu_with(5));
  EXPECT_THAT(plan.runs[0].cores, ElementsAre(ElementsAre(10, 11)));
  EXPECT_THAT(plan.runs[1].cores, ElementsAre(ElementsAre(10, 11)));
  EXPECT_THAT(plan.runs[2].cores, ElementsAre(ElementsAre(10, 11), ElementsAre(12, 13)));
}

TEST(BenchPlan, SimulatesMoreReplicasThanCores) {
  const Plan plan = make_bench_plan(with_replicas({4}), cpu_with(2));
  EXPECT_FALSE(plan.runs[2].simulated);
  const RunPlan& four = plan.runs[3];
  EXPECT_TRUE(four.simulated);
  EXPECT_THAT(four.simulated_reason, HasSubstr("4 replicas share 2 cores"));
  EXPECT_TRUE(four.cores.empty());
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("simulated")));
}

TEST(BenchPlan, SimulatesBeyondTheQuota) {
  Inventory inventory = cpu_with(4);
  inventory.cpu_quota = 1.5;
  const Plan plan = make_bench_plan(with_replicas({2}), inventory);
  EXPECT_FALSE(plan.runs[1].simulated);
  EXPECT_TRUE(plan.runs[2].simulated);
  EXPECT_THAT(plan.runs[2].simulated_reason, HasSubstr("quota is 1.5"));
  EXPECT_TRUE(plan.runs[2].cores.empty());
}

TEST(BenchPlan, RunsEveryReplicaCountOnCpu) {
  const Plan plan = make_bench_plan(with_replicas({max_replicas}), cpu_with(1));
  EXPECT_TRUE(plan.runs.back().simulated);
  EXPECT_EQ(plan.runs.back().replicas, max_replicas);
}

TEST(BenchPlan, RefusesAShareLargerThanTheMachine) {
  Options options;
  options.threads_per_replica = 8;
  expect_error([&] { make_bench_plan(options, cpu_with(2)); }, ErrorCategory::environment,
               {"--threads-per-replica 8", "found 2", "--threads-per-replica 2"});
}

TEST(BenchPlan, NeedsOversubscriptionOnGpus) {
  Options options = with_replicas({64});
  expect_error([&] { make_bench_plan(options, gpus(2)); }, ErrorCategory::environment,
               {"64 replicas", "found 2 GPUs", "--oversubscribe", "dtrain info"});
  options.oversubscribe = true;
  const Plan plan = make_bench_plan(options, gpus(2));
  EXPECT_TRUE(plan.runs.back().simulated);
  EXPECT_FALSE(plan.runs[1].simulated);
}

TEST(BenchPlan, RefusesADelayOfARankThatIsNotThere) {
  Options options = with_replicas({2});
  options.injected_delays = {{2, Phase::input, 10.0}};
  expect_error([&] { make_bench_plan(options, cpu_with(2)); }, ErrorCategory::usage, {"rank=2", "0 to 1"});
  options.injected_delays = {{1, Phase::input, 10.0}};
  EXPECT_NO_THROW(make_bench_plan(options, cpu_with(2)));
}

TEST(BenchPlan, NeverDelaysABase) {
  Options options = with_replicas({1});
  options.injected_delays = {{0, Phase::input, 10.0}};
  expect_error([&] { make_bench_plan(options, cpu_with(2)); }, ErrorCategory::usage,
               {"--inject-delay", "base"});
}

TEST(TrainPlan, IsOneRunAtTheLargestN) {
  const Plan plan = make_train_plan(with_replicas({1, 2}, true), cpu_with(2));
  ASSERT_EQ(plan.runs.size(), 1U);
  EXPECT_EQ(plan.runs[0].id, "mirrored-2");
  EXPECT_EQ(plan.runs[0].base, Base::none);
  EXPECT_EQ(plan.runs[0].global_batch, 128);
}

TEST(ShareOf, DiffersByOneAndAddsUp) {
  for (const int total : {0, 1, 7, 10, 64}) {
    for (const int replicas : {1, 2, 3, 4, 7}) {
      int sum = 0;
      for (int rank = 0; rank < replicas; ++rank) {
        sum += share_of(total, rank, replicas);
        EXPECT_LE(share_of(total, 0, replicas) - share_of(total, rank, replicas), 1);
        EXPECT_GE(share_of(total, 0, replicas), share_of(total, rank, replicas));
      }
      EXPECT_EQ(sum, total);
    }
  }
}

}  // namespace
}  // namespace dtrain::config
