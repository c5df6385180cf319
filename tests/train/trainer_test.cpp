#include "train/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "worlds.hpp"

namespace dtrain::train {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::WorldSetup;

class Recorder final : public TrainingObserver {
 public:
  void epoch_begins(int epoch, int epochs, int steps) override {
    events.push_back(fmt::format("begin {}/{} {}", epoch, epochs, steps));
  }
  void evaluation_begins(int epoch, std::size_t images) override {
    events.push_back(fmt::format("evaluate {} {}", epoch, images));
    if (stop != nullptr && epoch == stop_at) *stop = true;
  }
  void epoch_ended(const EpochReport& report) override {
    events.push_back(fmt::format("end {}/{}", report.epoch, report.epochs));
    reports.push_back(report);
  }

  std::vector<std::string> events;
  std::vector<EpochReport> reports;
  std::atomic<bool>* stop = nullptr;
  int stop_at = 0;
};

class Training : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder);
    setup.options.epochs = 4;
    setup.options.optimizer = "adam";
    setup.options.learning_rate = 0.01;
    setup.use("mirrored", 2, 12);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  TrainingOutcome train_anew() {
    recorder = {};
    recorder.stop = &setup.stop;
    recorder.stop_at = stop_at;
    World world(setup.config);
    TrainingOutcome outcome = train(world, setup.config, recorder);
    hash = world.weight_hashes()[0];
    return outcome;
  }

  WorldSetup setup;
  Recorder recorder;
  int stop_at = 0;
  std::string hash;
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("dtrain-trainer-{}", getpid());
  std::string file = (folder / "run.checkpoint").string();
};

TEST_F(Training, EveryEpochIsARoundAndIsEvaluated) {
  const TrainingOutcome outcome = train_anew();
  EXPECT_EQ(outcome.epochs, 4);
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_FALSE(outcome.target_reached.has_value());
  EXPECT_THAT(recorder.events, ElementsAre("begin 1/4 5", "evaluate 1 37", "end 1/4", "begin 2/4 5",
                                           "evaluate 2 37", "end 2/4", "begin 3/4 5", "evaluate 3 37",
                                           "end 3/4", "begin 4/4 5", "evaluate 4 37", "end 4/4"));
  const measure::RunSamples& samples = outcome.samples;
  ASSERT_THAT(samples.rounds, SizeIs(4));
  ASSERT_THAT(samples.evaluations, SizeIs(4));
  EXPECT_THAT(samples.losses, SizeIs(20));
  EXPECT_EQ(samples.plan.id, "mirrored-2");
  EXPECT_EQ(samples.measured_steps, 20U);
  EXPECT_EQ(samples.weights_hash, hash);
  EXPECT_GT(samples.bytes_sent, 0U);
  double seconds = 0.0;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(samples.rounds[i].images, 60);
    EXPECT_EQ(samples.rounds[i].steps, 5);
    EXPECT_GT(samples.rounds[i].calibration_seconds, 0.0);
    seconds += samples.rounds[i].seconds;
    EXPECT_EQ(samples.evaluations[i].epoch, static_cast<int>(i) + 1);
    EXPECT_DOUBLE_EQ(samples.evaluations[i].seconds, seconds);  // training alone
    EXPECT_EQ(recorder.reports[i].evaluation.accuracy, samples.evaluations[i].accuracy);
    EXPECT_NEAR(
        recorder.reports[i].training_loss,
        std::accumulate(samples.losses.begin() + 5 * i, samples.losses.begin() + 5 * (i + 1), 0.0) / 5,
        1e-12);
    EXPECT_DOUBLE_EQ(recorder.reports[i].images_per_second, 60 / samples.rounds[i].seconds);
  }
  EXPECT_LT(recorder.reports[3].training_loss, recorder.reports[0].training_loss);
}

TEST_F(Training, EndsAtItsTarget) {
  setup.options.epochs = 200;
  setup.options.target_accuracy = 0.6;
  const TrainingOutcome outcome = train_anew();
  EXPECT_TRUE(outcome.target_reached.value());
  EXPECT_LT(outcome.epochs, 200);
  EXPECT_GE(outcome.samples.evaluations.back().accuracy, 0.6);
  EXPECT_EQ(outcome.seconds_to_target.value(), outcome.samples.evaluations.back().seconds);
  for (std::size_t i = 0; i + 1 < outcome.samples.evaluations.size(); ++i) {
    EXPECT_LT(outcome.samples.evaluations[i].accuracy, 0.6);
  }
}

TEST_F(Training, MissingTheTargetIsAnOutcome) {
  setup.options.epochs = 2;
  setup.options.target_accuracy = 1.01;
  const TrainingOutcome outcome = train_anew();
  EXPECT_FALSE(outcome.target_reached.value());
  EXPECT_FALSE(outcome.seconds_to_target.has_value());
  EXPECT_EQ(outcome.epochs, 2);
}

TEST_F(Training, WithoutATestSetItSaysSo) {
  setup.config.data.test = nullptr;
  setup.options.epochs = 1;
  const TrainingOutcome outcome = train_anew();
  EXPECT_EQ(recorder.events[1], "evaluate 1 60");
  EXPECT_THAT(outcome.samples.notes, ::testing::Contains(HasSubstr("no test set")));
}

TEST_F(Training, ResumesExactly) {
  const TrainingOutcome whole = train_anew();
  const std::string whole_hash = hash;

  setup.options.checkpoint = file;
  setup.options.epochs = 3;
  train_anew();
  setup.options.epochs = 4;
  setup.options.resume = file;
  const TrainingOutcome rest = train_anew();
  EXPECT_THAT(recorder.events, ElementsAre("begin 4/4 5", "evaluate 4 37", "end 4/4"));
  EXPECT_EQ(hash, whole_hash);
  EXPECT_EQ(rest.samples.losses, whole.samples.losses) << "the curve goes on";
  ASSERT_THAT(rest.samples.evaluations, SizeIs(4));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rest.samples.evaluations[i].epoch, whole.samples.evaluations[i].epoch);
    EXPECT_EQ(rest.samples.evaluations[i].accuracy, whole.samples.evaluations[i].accuracy);
    EXPECT_EQ(rest.samples.evaluations[i].loss, whole.samples.evaluations[i].loss);
  }
  EXPECT_THAT(rest.samples.rounds, SizeIs(1));
  EXPECT_EQ(read_checkpoint(file).state.step, 20);
}

TEST_F(Training, NothingIsLeftToDoForAFinishedRun) {
  setup.options.checkpoint = file;
  setup.options.target_accuracy = 0.0;  // reached by the first epoch
  EXPECT_EQ(train_anew().epochs, 1);
  setup.options.resume = file;
  const TrainingOutcome again = train_anew();
  EXPECT_THAT(recorder.events, SizeIs(0));
  EXPECT_TRUE(again.target_reached.value());
  EXPECT_EQ(again.seconds_to_target.value(), again.samples.evaluations.at(0).seconds);
}

TEST_F(Training, RefusesTheCheckpointOfAnotherRun) {
  setup.options.checkpoint = file;
  setup.options.epochs = 1;
  train_anew();
  setup.options.resume = file;
  setup.options.seed = 5;
  const Error error = error_of([&] { train_anew(); });
  EXPECT_EQ(error.category(), ErrorCategory::data);
  EXPECT_THAT(error.what(), HasSubstr("seed 5 here, 0 in the file"));
}

TEST_F(Training, StoppedKeepsWhatWasFinished) {
  setup.options.checkpoint = file;
  stop_at = 3;  // in the evaluation of epoch 3
  const TrainingOutcome outcome = train_anew();
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_EQ(outcome.epochs, 2);
  EXPECT_THAT(outcome.samples.evaluations, SizeIs(2));
  EXPECT_EQ(read_checkpoint(file).state.step, 10);

  setup.stop = false;
  setup.options.resume = file;
  stop_at = 0;
  const TrainingOutcome rest = train_anew();
  setup.options.resume.clear();
  const TrainingOutcome whole = train_anew();
  EXPECT_EQ(rest.samples.weights_hash, whole.samples.weights_hash);
}

TEST_F(Training, ABatchLargerThanTheDataIsAnError) {
  setup.use("mirrored", 2, 61);
  const Error error = error_of([&] { train_anew(); });
  EXPECT_EQ(exit_code(error.category()), exit_code(ErrorCategory::usage)) << error.what();
  EXPECT_THAT(error.what(), HasSubstr("61"));
}

TEST_F(Training, FailuresOfTheRunAreThrown) {
  WorldSetup bad(2, 12, {.loss = [](int rank, int pass) {
                   return rank == 1 && pass == 7 ? std::numeric_limits<double>::quiet_NaN() : 0.0;
                 }});
  World world(bad.config);
  EXPECT_EQ(error_of([&] { train(world, bad.config, recorder); }).what(),
            std::string("step 8, rank 1: loss is not finite"));
}

}  // namespace
}  // namespace dtrain::train
