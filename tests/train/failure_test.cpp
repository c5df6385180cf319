#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "worlds.hpp"

namespace dtrain::train {
namespace {

using testing::error_of;
using testing::Faults;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::WorldSetup;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::ptrdiff_t threads_of_this_process() {
  namespace fs = std::filesystem;
  std::thread([] {}).join();  // a sanitizer starts a thread of its own with the first one
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

Faults failing_in_forward(int rank, int pass) {
  return {.forward = [=](int r, int p) {
    if (r == rank && p == pass) throw environment_error("device went away", "look for it");
  }};
}

TEST(WorldFailure, NamesRankStepAndFirstCause) {
  for (const int rank : {0, 2}) {
    WorldSetup setup(3, 12, failing_in_forward(rank, 4));
    World world(setup.config);
    world.run(2);
    const Error error = error_of([&] { world.run(5); });
    EXPECT_EQ(error.what(), fmt::format("step 5, rank {}: device went away", rank));
    EXPECT_EQ(error.category(), ErrorCategory::environment);
    EXPECT_EQ(error.advice(), "look for it");
  }
}

TEST(WorldFailure, IsRememberedButWhatWasMeasuredCanBeDescribed) {
  WorldSetup setup(2, 12, failing_in_forward(1, 3));
  World world(setup.config);
  world.run(3);
  error_of([&] { world.run(5); });
  EXPECT_THAT(error_of([&] { world.run(1); }).what(), StartsWith("step 4, rank 1"));
  EXPECT_THAT(error_of([&] { world.evaluate(setup.config.data.test); }).what(), StartsWith("step 4, rank 1"));
  EXPECT_THAT(error_of([&] { world.load_state({}); }).what(), StartsWith("step 4, rank 1"));
  EXPECT_THAT(world.losses(), SizeIs(3));
  measure::RunSamples samples;
  world.describe(samples);
  EXPECT_THAT(samples.losses, SizeIs(3));
  EXPECT_TRUE(samples.weights_agree);
  EXPECT_EQ(samples.weights_hash, "");
}

TEST(WorldFailure, EveryRankFailingAtOnceIsOneError) {
  Faults faults{.forward = [](int, int pass) {
    if (pass == 2) throw std::bad_alloc();
  }};
  WorldSetup setup(4, 12, faults);
  World world(setup.config);
  const Error error = error_of([&] { world.run(4); });
  EXPECT_THAT(error.what(), ::testing::MatchesRegex("step 3, rank [0-3]: out of memory"));
  EXPECT_EQ(error.category(), ErrorCategory::environment);
}

TEST(WorldFailure, ConstructionLeavesNothingBehind) {
  const auto before = threads_of_this_process();
  for (const int rank : {0, 1, 3}) {
    Faults faults{.make = [=](int r) {
      if (r == rank) throw environment_error("core 7 cannot be used", "take another");
    }};
    WorldSetup setup(4, 12, faults);
    const Error error = error_of([&] { const World world(setup.config); });
    EXPECT_EQ(error.what(), fmt::format("rank {}: core 7 cannot be used", rank));
    EXPECT_EQ(setup.backend->alive(), 0);
  }
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(WorldFailure, WorldsComeAndGoWithoutATrace) {
  const auto before = threads_of_this_process();
  WorldSetup setup(3, 12);
  for (int i = 0; i < 10; ++i) {
    World world(setup.config);
    if (i % 2 == 0) world.run(i % 3);
    EXPECT_EQ(setup.backend->alive(), 3);
  }
  EXPECT_EQ(setup.backend->alive(), 0);
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(WorldFailure, EvaluationNamesItsRank) {
  WorldSetup setup(3, 12, {.evaluate = [](int rank) {
                     if (rank == 1) throw std::bad_alloc();
                   }});
  World world(setup.config);
  EXPECT_THAT(error_of([&] { world.evaluate(setup.config.data.test); }).what(),
              StartsWith("rank 1: out of memory"));
}

TEST(WorldFailure, ARankThatIsTooLateIsNamed) {
  WorldSetup setup(2, 12);
  setup.options.timeout = Seconds(0.05);
  setup.config.delays = {{.rank = 1, .phase = config::Phase::forward, .milliseconds = 2000.0}};
  World world(setup.config);
  const TimePoint begin = Clock::now();
  const Error error = error_of([&] { world.run(1); });
  EXPECT_LT(seconds(Clock::now() - begin), 1.5);  // the late one is not waited for to the end
  EXPECT_EQ(error.category(), ErrorCategory::run);
  EXPECT_THAT(error.what(), StartsWith("step 1, rank 0: "));
  EXPECT_THAT(error.what(), HasSubstr("rank 1"));
}

TEST(NotFinite, GradientIsBlamedOnTheRankItCameFrom) {
  for (const int culprit : {0, 1, 2}) {
    for (const float bad : {nan, infinity}) {
      Faults faults{
          .gradient = [=](int rank, int pass) { return rank == culprit && pass == 3 ? bad : 0.0F; }};
      WorldSetup setup(3, 12, faults);
      World world(setup.config);
      const Error error = error_of([&] { world.run(6); });
      EXPECT_EQ(error.what(), fmt::format("step 4, rank {}: gradient is not finite", culprit));
      EXPECT_EQ(error.category(), ErrorCategory::run);
      EXPECT_THAT(error.advice(), HasSubstr("--lr"));
    }
  }
}

TEST(NotFinite, GradientOfThePlainLoop) {
  WorldSetup setup(1, 12, {.gradient = [](int, int pass) { return pass == 1 ? nan : 0.0F; }});
  setup.use("single", 1, 12);
  World world(setup.config);
  EXPECT_EQ(error_of([&] { world.run(3); }).what(), std::string("step 2, rank 0: gradient is not finite"));
}

TEST(NotFinite, SumOfFiniteGradientsHasNoCulprit) {
  WorldSetup setup(2, 12, {.gradient = [](int, int pass) { return pass == 1 ? 3e38F : 0.0F; }});
  World world(setup.config);
  EXPECT_THAT(error_of([&] { world.run(3); }).what(),
              ::testing::MatchesRegex("step 2, rank [01]: gradient summed over all ranks is not finite"));
}

TEST(NotFinite, LossIsBlamedOnItsRank) {
  WorldSetup setup(3, 12, {.loss = [](int rank, int pass) { return rank == 2 && pass == 1 ? nan : 0.0; }});
  World world(setup.config);
  EXPECT_EQ(error_of([&] { world.run(3); }).what(), std::string("step 2, rank 2: loss is not finite"));
}

TEST(NotFinite, WeightIsFoundThoughGradientsAreFinite) {
  WorldSetup setup(2, 12);
  setup.config.schedule = schedules().at("constant").value({.peak = 1e39});
  World world(setup.config);
  EXPECT_THAT(error_of([&] { world.run(1); }).what(),
              ::testing::MatchesRegex("step 1, rank [01]: weight is not finite"));
}

TEST(Interruption, EndsTheStretchAtOnceAndForGood) {
  WorldSetup setup(2, 12);
  setup.config.delays = {{.rank = 1, .phase = config::Phase::update, .milliseconds = 20.0}};
  setup.config.live = std::make_shared<measure::LiveStep>();
  World world(setup.config);
  world.run(2);
  std::thread user([&] {
    while (setup.config.live->steps < 3) std::this_thread::yield();
    setup.stop = true;
  });
  EXPECT_THROW(world.run(100000), Interrupted);
  user.join();
  EXPECT_LT(setup.config.live->steps, 100);
  EXPECT_THAT(world.losses(), SizeIs(2));
  setup.stop = false;
  EXPECT_THROW(world.run(1), Interrupted);
  EXPECT_THROW(world.evaluate(setup.config.data.test), Interrupted);
  measure::RunSamples samples;
  samples.measured_steps = 2;
  world.describe(samples);
  EXPECT_EQ(samples.bytes_sent, 2 * (128 + 16) * sizeof(float));
  EXPECT_TRUE(samples.weights_agree);
}

TEST(Interruption, CutsLongWaitsShort) {
  WorldSetup setup(2, 12);
  setup.config.delays = {{.rank = 0, .phase = config::Phase::input, .milliseconds = 60000.0}};
  World world(setup.config);
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    setup.stop = true;
  });
  const TimePoint begin = Clock::now();
  EXPECT_THROW(world.run(1), Interrupted);
  EXPECT_LT(seconds(Clock::now() - begin), 5.0);
  user.join();
}

TEST(WorldSetup, RefusesWhatCannotBe) {
  WorldSetup setup(2, 12);
  setup.config.strategy = strategy::strategies().at("single").value;
  EXPECT_EQ(error_of([&] { const World world(setup.config); }).category(), ErrorCategory::usage);
  setup.use("mirrored", 2, 12);
  setup.config.delays = {{.rank = 2, .phase = config::Phase::input, .milliseconds = 1.0}};
  EXPECT_THAT(error_of([&] { const World world(setup.config); }).what(), HasSubstr("rank=2"));
  setup.use("single", 1, 12);
  setup.config.delays = {{.rank = 0, .phase = config::Phase::communication, .milliseconds = 1.0}};
  EXPECT_THAT(error_of([&] { const World world(setup.config); }).what(), HasSubstr("phase=communication"));
}

// fp16: the fake overflows where it is told to, as a real replica does when the loss scale is too large.
TEST(LossScaling, AllRanksSkipTheSameStepAndGoOn) {
  WorldSetup setup(2, 12,
                   {.gradient = [](int rank, int pass) { return rank == 1 && pass == 4 ? infinity : 0.0F; }});
  setup.options.precision = config::Precision::fp16;
  World world(setup.config);
  const auto stretch = world.run(8);
  for (const auto& records : stretch.ranks) {
    for (std::size_t step = 0; step < records.size(); ++step)
      EXPECT_EQ(records[step].skipped, step == 4) << step;
  }
  const TrainingState state = world.save_state();
  EXPECT_EQ(state.step, 8);
  EXPECT_EQ(state.updates, 7);
  EXPECT_EQ(state.loss_scale, 32768.0);
  EXPECT_EQ(state.good_steps, 3);
  const auto hashes = world.weight_hashes();
  EXPECT_EQ(hashes[0], hashes[1]);
  measure::RunSamples samples;
  world.describe(samples);
  EXPECT_THAT(samples.notes.at(0), HasSubstr("scale 32768 at the end, 1 of 8 steps skipped"));
}

TEST(LossScaling, ASkippedStepChangesNothing) {
  WorldSetup setup(2, 12, {.gradient = [](int, int pass) { return pass == 1 ? nan : 0.0F; }});
  setup.options.precision = config::Precision::fp16;
  setup.options.optimizer = "adam";
  World world(setup.config);
  world.run(1);
  const TrainingState before = world.save_state();
  world.run(1);
  const TrainingState after = world.save_state();
  EXPECT_EQ(after.weights, before.weights);
  EXPECT_EQ(after.optimizer, before.optimizer);
  EXPECT_EQ(after.updates, 1);
  EXPECT_EQ(after.step, 2);
}

TEST(LossScaling, ScaleIsTakenOutOfGradientsAndUpdates) {
  WorldSetup plain(2, 12);
  WorldSetup scaled(2, 12);
  scaled.options.precision = config::Precision::fp16;
  World one(plain.config);
  World other(scaled.config);
  one.run(5);
  other.run(5);
  EXPECT_EQ(one.losses(), other.losses());  // powers of two change no bit
  EXPECT_EQ(one.gradients(0), other.gradients(1));
  EXPECT_EQ(one.weights(0), other.weights(1));
}

TEST(LossScaling, OverflowAtTheFloorIsAnError) {
  WorldSetup setup(2, 12, {.gradient = [](int, int) { return infinity; }});
  setup.options.precision = config::Precision::fp16;
  World world(setup.config);
  const auto stretch = world.run(16);  // 65536 to 1
  for (const auto& record : stretch.ranks[0]) EXPECT_TRUE(record.skipped);
  const Error error = error_of([&] { world.run(1); });
  EXPECT_EQ(error.category(), ErrorCategory::run);
  EXPECT_THAT(error.what(), StartsWith("step 17, rank "));
  EXPECT_THAT(error.what(), HasSubstr("smallest loss scale"));
}

TEST(LossScaling, ResumesExactly) {
  WorldSetup setup(2, 12, {.gradient = [](int, int pass) { return pass == 2 ? nan : 0.0F; }});
  setup.options.precision = config::Precision::fp16;
  World whole(setup.config);
  whole.run(5);
  const TrainingState state = whole.save_state();
  whole.run(4);
  WorldSetup later(2, 12);
  later.options.precision = config::Precision::fp16;
  World second(later.config);
  second.load_state(state);
  second.run(4);
  EXPECT_EQ(second.save_state().loss_scale, whole.save_state().loss_scale);
  EXPECT_EQ(second.save_state().updates, 8);
  EXPECT_EQ(second.save_state().good_steps, whole.save_state().good_steps);
  EXPECT_EQ(second.weight_hashes(), whole.weight_hashes());
}

TEST(LossScaling, ALossThatIsNotFiniteStopsAllTheSame) {
  WorldSetup setup(2, 12, {.loss = [](int rank, int pass) { return rank == 1 && pass == 2 ? nan : 0.0; }});
  setup.options.precision = config::Precision::fp16;
  World world(setup.config);
  EXPECT_EQ(error_of([&] { world.run(5); }).what(), std::string("step 3, rank 1: loss is not finite"));
}

}  // namespace
}  // namespace dtrain::train
