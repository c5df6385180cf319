#include "strategy/pipeline_schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "strategy/pipeline_plan.hpp"

namespace dtrain::strategy {
namespace {

using Kind = StageTask::Kind;
using ::testing::ElementsAre;

std::string text(const std::vector<StageTask>& tasks) {
  std::string all;
  for (const StageTask& task : tasks) {
    all += fmt::format("{}{} ", task.kind == Kind::forward ? "F" : "B", task.micro_batch);
  }
  return all;
}

const PipelineSchedule& schedule(const std::string& name) { return pipeline_schedules().at(name).value; }

std::string tasks(const std::string& name, int stage, int stages, int micro_batches) {
  return text(schedule(name).tasks(stage, stages, micro_batches));
}

// Steps of one unit each until all stages are done, where each waits for what it needs from its neighbours.
int units(const std::string& name, int stages, int micro_batches) {
  std::vector<std::vector<StageTask>> left;
  for (int stage = 0; stage < stages; ++stage) {
    left.push_back(schedule(name).tasks(stage, stages, micro_batches));
    std::ranges::reverse(left.back());
  }
  std::map<std::tuple<int, Kind, int>, int> done;  // the unit at whose end it was
  int now = 0;
  const auto ready = [&](int stage, const StageTask& task) {
    const int before = task.kind == Kind::forward ? stage - 1 : stage + 1;
    if (before < 0 || before >= stages) return true;
    const auto found = done.find({before, task.kind, task.micro_batch});
    return found != done.end() && found->second <= now;
  };
  const auto busy = [&] { return std::ranges::any_of(left, [](const auto& each) { return !each.empty(); }); };
  while (busy() && now < 10000) {
    for (int stage = 0; stage < stages; ++stage) {
      auto& mine = left[static_cast<std::size_t>(stage)];
      if (mine.empty() || !ready(stage, mine.back())) continue;
      done[{stage, mine.back().kind, mine.back().micro_batch}] = now + 1;
      mine.pop_back();
    }
    ++now;
  }
  return now;
}

TEST(PipelineSchedule, GoesInTheOrderOfItsName) {
  EXPECT_EQ(tasks("gpipe", 0, 2, 3), "F0 F1 F2 B0 B1 B2 ");
  EXPECT_EQ(tasks("gpipe", 1, 2, 3), "F0 F1 F2 B0 B1 B2 ");
  EXPECT_EQ(tasks("1f1b", 0, 3, 4), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(tasks("1f1b", 1, 3, 4), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(tasks("1f1b", 2, 3, 4), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(tasks("1f1b", 0, 1, 2), "F0 B0 F1 B1 ");
  EXPECT_EQ(tasks("1f1b", 0, 4, 2), "F0 F1 B0 B1 ");  // fewer micro-batches than stages
  EXPECT_EQ(tasks("1f1b", 0, 4, 1), "F0 B0 ");
  EXPECT_EQ(tasks("1f1b", 0, 4, 0), "");
}

TEST(PipelineSchedule, HoldsNoMoreThanItSays) {
  for (const char* name : {"1f1b", "gpipe"}) {
    for (int stages = 1; stages <= 5; ++stages) {
      for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
        for (int stage = 0; stage < stages; ++stage) {
          const int allowed = schedule(name).in_flight(stage, stages, micro_batches);
          std::vector<bool> slots(static_cast<std::size_t>(allowed), false);
          int forward = 0;
          int backward = 0;
          int most = 0;
          for (const StageTask& task : schedule(name).tasks(stage, stages, micro_batches)) {
            auto slot = slots[static_cast<std::size_t>(task.micro_batch % allowed)];
            EXPECT_EQ(slot, task.kind == Kind::backward);
            EXPECT_EQ(task.micro_batch, task.kind == Kind::forward ? forward++ : backward++);
            slot = task.kind == Kind::forward;
            most = std::max(most, forward - backward);
          }
          EXPECT_EQ(forward, micro_batches);
          EXPECT_EQ(backward, micro_batches);
          EXPECT_EQ(most, allowed) << name << ' ' << stage << " of " << stages << ", " << micro_batches;
        }
      }
    }
  }
}

// With even stages, and forward as long as backward.
TEST(PipelineSchedule, IdlesAsTheorySays) {
  for (const char* name : {"1f1b", "gpipe"}) {
    for (int stages = 1; stages <= 5; ++stages) {
      for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
        const int all = units(name, stages, micro_batches);
        EXPECT_NEAR(1.0 - 2.0 * micro_batches / all, bubble_share(stages, micro_batches), 1e-12)
            << name << ": " << stages << " stages, " << micro_batches << " micro-batches";
      }
    }
  }
  EXPECT_DOUBLE_EQ(bubble_share(2, 8), 1.0 / 9);
  EXPECT_DOUBLE_EQ(bubble_share(1, 8), 0.0);
}

TEST(PipelinePlan, DealsImagesToMicroBatches) {
  EXPECT_THAT(micro_batch_images(10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(micro_batch_images(3, 4), ElementsAre(1, 1, 1));
  EXPECT_THAT(micro_batch_images(0, 4), ElementsAre());
}

TEST(PipelinePlan, PutsPipelinesOnConsecutiveRanks) {
  config::Options options;
  options.pipeline_stages = 2;
  const PipelineShape shape = pipeline_shape(options, 6);
  EXPECT_EQ(shape.stages, 2);
  EXPECT_EQ(shape.pipelines, 3);
  EXPECT_EQ(shape.stage_of(3), 1);
  EXPECT_EQ(shape.pipeline_of(3), 1);
  EXPECT_EQ(pipeline_shape(options, 1).stages, 1);  // of a sweep: takes what it has
  options.pipeline_stages.reset();
  EXPECT_EQ(pipeline_shape(options, 6).stages, 6);
  options.cut = {"conv2", "conv3"};
  EXPECT_EQ(pipeline_shape(options, 6).stages, 3);
  EXPECT_EQ(pipeline_shape(options, 6).pipelines, 2);
}

TEST(PipelinePlan, NamesTheRunWhoseDevicesAreNoWholeNumberOfPipelines) {
  config::Options options;
  options.pipeline_stages = 2;
  try {
    pipeline_shape(options, 5);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_EQ(std::string(error.what()),
              "pipeline-5: 5 devices are no whole number of pipelines of 2 stages");
    EXPECT_EQ(std::string(error.advice()), "use --gpus 4 or 6, or --pipeline-stages 5");
  }
}

TEST(PipelinePlan, TheLargestRunUsesWhatWasAskedFor) {
  config::Options options;
  options.replicas = {2};
  const auto message = [&] {
    try {
      pipeline_shape(options, 2);
      return std::string("none");
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::usage);
      return std::string(error.what()) + " -> " + error.advice();
    }
  };
  options.pipeline_stages = 4;
  EXPECT_EQ(pipeline_shape(options, 1).stages, 1);  // a base
  EXPECT_EQ(
      message(),
      "--pipeline-stages 4: pipelines of 4 stages, but the largest run has 2 devices -> use --gpus 4, or "
      "--pipeline-stages 2 or less");
  options.pipeline_stages.reset();
  options.cut = {"conv2", "conv3"};
  EXPECT_EQ(message(),
            "--cut conv2,conv3: pipelines of 3 stages, but the largest run has 2 devices -> use --gpus 3, or "
            "name 1 layer to cut at");
  options.replicas = {2, 3};
  EXPECT_EQ(message(), "none");
}

TEST(PipelinePlan, APipelineIsOneShare) {
  const Strategy& pipeline = *strategies().at("pipeline").value;
  config::Options options;
  EXPECT_EQ(pipeline.shares(options, 6), 1);
  options.pipeline_stages = 2;
  EXPECT_EQ(pipeline.shares(options, 6), 3);
  EXPECT_EQ(pipeline.shares(options, 1), 1);
  EXPECT_EQ(strategies().at("tensor").value->shares(options, 6), 1);
  EXPECT_EQ(strategies().at("mirrored").value->shares(options, 6), 6);
}

}  // namespace
}  // namespace dtrain::strategy
