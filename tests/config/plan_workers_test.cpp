#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "config/plan.hpp"

// Plans for several workers, and those that are held against exact sums.
namespace dtrain::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Workers with the cores given, host by host.
Inventory workers(const std::vector<std::pair<std::string, std::vector<int>>>& shares) {
  Inventory inventory;
  inventory.device = "cpu";
  inventory.cores = {0, 1, 2, 3};
  for (const auto& [host, cores] : shares) inventory.workers.push_back({host, cores, {}});
  return inventory;
}

Options asked(const std::string& strategy, std::vector<int> replicas = {}) {
  Options options;
  options.strategy = strategy;
  options.replicas = std::move(replicas);
  return options;
}

std::vector<std::string> ids(const Plan& plan) {
  std::vector<std::string> out;
  for (const auto& run : plan.runs) out.push_back(run.id);
  return out;
}

TEST(WorkersPlan, TakesEveryCoreOfEveryWorker) {
  const Plan plan = make_bench_plan(asked("multi-worker"), workers({{"a", {0, 1}}, {"b", {4, 5}}}));
  EXPECT_THAT(ids(plan), ElementsAre("plain", "multi-worker-1", "multi-worker-2", "multi-worker-4"));
  const RunPlan& run = plan.runs.back();
  EXPECT_THAT(run.workers, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(run.cores, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(4), ElementsAre(5)));
  EXPECT_FALSE(run.simulated);
}

TEST(WorkersPlan, FillsOneWorkerBeforeTheNext) {
  const Plan plan = make_bench_plan(asked("multi-worker", {4}), workers({{"a", {0, 1}}, {"b", {4, 5}}}));
  EXPECT_THAT(plan.runs[1].workers, ElementsAre(0));
  EXPECT_THAT(plan.runs[2].workers, ElementsAre(0, 0));
  EXPECT_THAT(plan.runs[0].workers, ElementsAre(0)) << "the plain loop is the chief's";
}

TEST(WorkersPlan, WorkersOfOneHostThatShareACoreAreSimulated) {
  const Plan shared = make_bench_plan(asked("multi-worker"), workers({{"a", {0}}, {"a", {0}}}));
  EXPECT_TRUE(shared.runs.back().simulated);
  EXPECT_THAT(shared.runs.back().simulated_reason, HasSubstr("2 workers share cores"));
  EXPECT_THAT(shared.runs.back().cores, IsEmpty());
  EXPECT_FALSE(shared.runs[1].simulated) << "one replica has its core";
  const Plan apart = make_bench_plan(asked("multi-worker"), workers({{"a", {0}}, {"b", {0}}}));
  EXPECT_FALSE(apart.runs.back().simulated) << "cores of two hosts have the same numbers";
}

TEST(WorkersPlan, MoreReplicasThanAWorkerHasCoresAreSimulated) {
  const Plan plan = make_bench_plan(asked("multi-worker", {6}), workers({{"a", {0, 1}}, {"b", {0, 1}}}));
  EXPECT_THAT(plan.runs.back().workers, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_TRUE(plan.runs.back().simulated);
}

TEST(WorkersPlan, ReplicasOfSeveralThreadsTakeTheirCoresTogether) {
  Options options = asked("multi-worker");
  options.threads_per_replica = 2;
  const Plan plan = make_train_plan(options, workers({{"a", {0, 1}}, {"b", {2, 3}}}));
  EXPECT_THAT(plan.runs[0].cores, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(WorkersPlan, SaysWhichWorkersStayIdle) {
  const Plan plan =
      make_train_plan(asked("multi-worker", {2}), workers({{"a", {0}}, {"a", {1}}, {"b", {0}}}));
  EXPECT_THAT(plan.runs[0].workers, ElementsAre(0, 1));
  ASSERT_THAT(plan.notes, ::testing::SizeIs(1));
  EXPECT_THAT(plan.notes[0], HasSubstr("1 of 3 workers have no replica"));
}

TEST(WorkersPlan, OneProcessNamesNoWorkers) {
  Inventory alone;
  alone.device = "cpu";
  alone.cores = {0, 1};
  EXPECT_THAT(make_train_plan(asked("multi-worker"), alone).runs[0].workers, IsEmpty());
}

TEST(BackupWorkersPlan, LeaveAGradientAtTheLargestCount) {
  Inventory alone;
  alone.device = "cpu";
  alone.cores = {0, 1};
  Options options = asked("parameter-server", {2});
  options.backup_workers = 1;
  EXPECT_EQ(make_bench_plan(options, alone).runs.back().replicas, 2);
  options.backup_workers = 2;
  try {
    make_bench_plan(options, alone);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--backup-workers 2 leaves no gradient"));
    EXPECT_THAT(error.advice(), HasSubstr("--replicas 3"));
  }
}

TEST(ExactPlan, StandsBesideEveryRunWhoseSumsDiffer) {
  Inventory alone;
  alone.device = "cpu";
  alone.cores = {0, 1};
  const auto planned = [&](auto change) {
    Options options = asked("mirrored", {2});
    change(options);
    return make_bench_plan(options, alone);
  };
  EXPECT_THAT(ids(planned([](Options&) {})), ElementsAre("plain", "mirrored-1", "mirrored-2"));
  for (const auto& change : std::vector<std::function<void(Options&)>>{
           [](Options& o) { o.compress = "fp16"; }, [](Options& o) { o.sync_every = 4; },
           [](Options& o) { o.updates = Updates::async; }}) {
    const Plan plan = planned(change);
    EXPECT_THAT(ids(plan), ElementsAre("plain", "mirrored-1", "mirrored-2-exact", "mirrored-2"));
    EXPECT_TRUE(plan.runs[2].exact);
    EXPECT_FALSE(plan.runs[3].exact);
    EXPECT_EQ(plan.runs[2].global_batch, plan.runs[3].global_batch);
  }
}

}  // namespace
}  // namespace dtrain::config
