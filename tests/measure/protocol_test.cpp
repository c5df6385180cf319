#include "measure/protocol.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "measure/warm_up.hpp"
#include "stretches.hpp"

namespace dtrain::measure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Takes steps of given lengths without taking any time, and remembers what it was asked for.
struct Script {
  std::function<std::int64_t(int)> step_ns = [](int) { return 10 * ms; };  // by number of the step
  std::function<void(int)> before_run = [](int) {};                        // by number of the call
  std::vector<int> asked;
  int alive = 0;
};

class FakeSubject final : public Subject {
 public:
  FakeSubject(config::RunPlan plan, Script& script) : plan_(std::move(plan)), script_(&script) {
    ++script_->alive;
  }
  ~FakeSubject() override { --script_->alive; }

  const config::RunPlan& plan() const override { return plan_; }

  StretchRecord run(int steps) override {
    script_->before_run(static_cast<int>(script_->asked.size()));
    script_->asked.push_back(steps);
    auto stretch = make_stretch(plan_.replicas, steps, [&](std::size_t, int step) {
      return StepShape{0, script_->step_ns(taken_ + step), 0, 0, 0, 0, 0, 4, true};
    });
    stretch.ranks[0].front().skipped = taken_ > 0;
    taken_ += steps;
    return stretch;
  }

  void describe(RunSamples& samples) override {
    samples.losses.assign(static_cast<std::size_t>(taken_), 0.5);
    samples.notes.emplace_back("described");
    samples.bytes_sent = samples.measured_steps * 100;
  }

 private:
  config::RunPlan plan_;
  Script* script_;
  int taken_ = 0;
};

class Log final : public Observer {
 public:
  void round_begins(const config::RunPlan& plan, int round, int, bool warming_up) override {
    lines.push_back(fmt::format("{} {} {}", warming_up ? "warm" : "measure", plan.id, round));
  }
  void round_ended(const Samples& samples, std::size_t run, int round, int rounds) override {
    EXPECT_FALSE(samples.complete);
    EXPECT_EQ(samples.runs[run].rounds.size(), static_cast<std::size_t>(round));
    lines.push_back(fmt::format("ended {} {}/{}", samples.runs[run].plan.id, round, rounds));
    if (after_round) after_round();
  }
  void stretch_ended(const config::RunPlan&, int, const StretchRecord& stretch) override {
    stretches.push_back(stretch.ranks.front().size());
  }
  void run_failed(const Samples& samples, std::size_t run, int, int) override {
    lines.push_back(fmt::format("failed {}", samples.runs[run].plan.id));
  }
  std::vector<std::string> ended() const {
    std::vector<std::string> out;
    for (const auto& line : lines) {
      if (line.starts_with("ended")) out.push_back(line);
    }
    return out;
  }
  std::vector<std::string> lines;
  std::vector<std::size_t> stretches;
  std::function<void()> after_round;
};

class Protocol : public ::testing::Test {
 protected:
  Protocol() {
    config_.rounds = 3;
    config_.warmup_steps = 2;
    config_.steps = 5;
    for (const int n : {1, 2, 4}) {
      config::RunPlan plan;
      plan.id = fmt::format("n{}", n);
      plan.replicas = n;
      runs_.push_back(plan);
    }
  }

  Samples measure_all() {
    return measure(
        runs_, [&](const auto& plan) { return std::make_unique<FakeSubject>(plan, scripts_[plan.id]); },
        config_, log_, stop_);
  }

  ProtocolConfig config_;
  std::vector<config::RunPlan> runs_;
  std::map<std::string, Script> scripts_;
  Log log_;
  std::atomic<bool> stop_{false};
};

TEST_F(Protocol, MeasuresInTurnsEverySecondTurnBackwards) {
  const Samples samples = measure_all();
  EXPECT_THAT(log_.ended(),
              ElementsAre("ended n1 1/3", "ended n2 1/3", "ended n4 1/3", "ended n4 2/3", "ended n2 2/3",
                          "ended n1 2/3", "ended n1 3/3", "ended n2 3/3", "ended n4 3/3"));
  EXPECT_TRUE(samples.complete);
  EXPECT_GT(samples.peak_process_bytes, 0U);
  ASSERT_EQ(samples.runs.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const RunSamples& run = samples.runs[i];
    EXPECT_EQ(run.plan.id, runs_[i].id);
    EXPECT_EQ(run.rounds.size(), 3U);
    EXPECT_EQ(run.measured_steps, 15U);
    EXPECT_EQ(run.skipped_steps, 3U);
    EXPECT_EQ(run.losses.size(), 21U);
    EXPECT_THAT(run.notes, ElementsAre("described"));
    EXPECT_EQ(run.bytes_sent, 1500U);
    EXPECT_GT(run.stamp_seconds, 0.0);
    for (const auto& round : run.rounds) {
      EXPECT_EQ(round.steps, 5);
      EXPECT_EQ(round.warmup_steps, 2);
      EXPECT_EQ(round.images, 5 * 4 * runs_[i].replicas);
      EXPECT_NEAR(round.seconds, 0.05, 1e-12);
      EXPECT_GT(round.calibration_seconds, 0.0);
    }
  }
}

TEST_F(Protocol, WarmsUpBeforeEveryStretchAndKeepsItOutOfTheSample) {
  runs_.resize(1);
  scripts_["n1"].step_ns = [](int step) { return (step % 7 < 2 ? 1000 : 10) * ms; };  // warm-up is slow
  const Samples samples = measure_all();
  EXPECT_THAT(scripts_["n1"].asked, ElementsAre(2, 5, 2, 5, 2, 5));
  for (const auto& round : samples.runs[0].rounds) EXPECT_NEAR(round.seconds, 0.05, 1e-12);
  EXPECT_THAT(log_.stretches, ElementsAre(5, 5, 5));
  EXPECT_EQ(log_.lines[0], "warm n1 1");
  EXPECT_EQ(log_.lines[1], "measure n1 1");
}

TEST_F(Protocol, TakesAsManyStepsAsTheTimeNeeds) {
  runs_.resize(1);
  config_.steps.reset();
  config_.warmup_steps = 4;
  config_.min_time = Seconds{2.0};
  scripts_["n1"].step_ns = [](int step) { return step == 0 ? 900 * ms : 10 * ms; };
  const Samples samples = measure_all();
  for (const auto& round : samples.runs[0].rounds) {
    EXPECT_EQ(round.steps, 210);  // with 5 % to spare
    EXPECT_GE(round.seconds, 2.0);
  }
}

TEST_F(Protocol, ProbesWhereNothingWasWarmedUpToPlanBy) {
  runs_.resize(1);
  config_.steps.reset();
  config_.warmup_steps = 0;
  config_.min_time = Seconds{1.0};
  scripts_["n1"].step_ns = [](int step) { return step == 0 ? 500 * ms : 10 * ms; };
  const Samples samples = measure_all();
  EXPECT_THAT(scripts_["n1"].asked, ElementsAre(2, 105, 105, 105));
  EXPECT_EQ(samples.runs[0].rounds[0].warmup_steps, 2);  // counted, not hidden
  EXPECT_EQ(samples.runs[0].rounds[1].warmup_steps, 0);
}

TEST_F(Protocol, NoWarmUpAndFixedStepsNeedNoProbe) {
  runs_.resize(1);
  config_.warmup_steps = 0;
  measure_all();
  EXPECT_THAT(scripts_["n1"].asked, ElementsAre(5, 5, 5));
}

TEST_F(Protocol, AFailedRunIsReportedAndTheOthersGoOn) {
  scripts_["n2"].before_run = [](int call) {
    if (call == 3) throw run_error("rank 1 did not come", "look at rank 1");
  };
  const Samples samples = measure_all();
  EXPECT_TRUE(samples.complete);
  EXPECT_EQ(samples.runs[0].rounds.size(), 3U);
  EXPECT_EQ(samples.runs[1].rounds.size(), 1U);
  EXPECT_EQ(samples.runs[1].failure, "rank 1 did not come; look at rank 1");
  EXPECT_EQ(samples.runs[2].rounds.size(), 3U);
  EXPECT_EQ(samples.runs[2].failure, "");
  EXPECT_EQ(scripts_["n2"].asked.size(), 3U);
  EXPECT_EQ(std::count(log_.lines.begin(), log_.lines.end(), "failed n2"), 1);
}

TEST_F(Protocol, ARunThatCannotBeMadeFailsAlone) {
  const auto make = [&](const config::RunPlan& plan) -> std::unique_ptr<Subject> {
    if (plan.replicas == 4) throw run_error("no", "");
    return std::make_unique<FakeSubject>(plan, scripts_[plan.id]);
  };
  const Samples samples = measure(runs_, make, config_, log_, stop_);
  EXPECT_EQ(samples.runs[2].failure, "no");
  EXPECT_EQ(samples.runs[0].rounds.size(), 3U);
}

TEST_F(Protocol, StampsThatCannotBeTrueFailTheRun) {
  scripts_["n2"].step_ns = [](int) { return -1 * ms; };
  const Samples samples = measure_all();
  EXPECT_THAT(samples.runs[1].failure, HasSubstr("rank 0, step 0"));
  EXPECT_TRUE(samples.runs[1].rounds.empty());
  EXPECT_EQ(samples.runs[2].rounds.size(), 3U);
}

TEST_F(Protocol, ErrorsOfTheEnvironmentEndTheMeasurement) {
  scripts_["n2"].before_run = [](int) { throw environment_error("out of memory", "smaller batch"); };
  try {
    measure_all();
    FAIL() << "should have thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::environment);
  }
  EXPECT_EQ(scripts_["n1"].alive, 0);
}

TEST_F(Protocol, AnInterruptionKeepsWhatWasMeasured) {
  scripts_["n4"].before_run = [](int call) {
    if (call == 3) throw Interrupted();
  };
  const Samples samples = measure_all();
  EXPECT_FALSE(samples.complete);
  EXPECT_EQ(samples.runs[0].rounds.size(), 1U);
  EXPECT_EQ(samples.runs[2].rounds.size(), 1U);
  EXPECT_EQ(samples.runs[2].failure, "");
}

TEST_F(Protocol, StopEndsItBetweenRounds) {
  log_.after_round = [&, count = 0]() mutable {
    if (++count == 4) stop_ = true;
  };
  const Samples samples = measure_all();
  EXPECT_FALSE(samples.complete);
  EXPECT_EQ(samples.runs[0].rounds.size(), 1U);
  EXPECT_EQ(samples.runs[2].rounds.size(), 2U);
}

TEST_F(Protocol, StoppedBeforeItBeganItMakesNothing) {
  stop_ = true;
  const Samples samples = measure_all();
  EXPECT_FALSE(samples.complete);
  EXPECT_EQ(samples.runs.size(), 3U);
  EXPECT_TRUE(log_.lines.empty());
}

TEST_F(Protocol, NoRunsAndNoRoundsAreComplete) {
  config_.rounds = 0;
  EXPECT_TRUE(measure_all().complete);
  config_.rounds = 2;
  runs_.clear();
  EXPECT_TRUE(measure_all().complete);
}

class WarmUpRule : public ::testing::Test {
 protected:
  WarmUp until_steady(double known = 0.0) {
    FakeSubject subject(config::RunPlan{}, script_);
    return warm_up(subject, std::nullopt, rule_, known);
  }
  Script script_;
  SteadyRule rule_;
};

TEST_F(WarmUpRule, EndsWhenTwoWindowsAgree) {
  // Two steps, then windows of 5: 100 ms, 60 ms, 58 ms.
  script_.step_ns = [](int step) { return (step == 0 ? 900 : step <= 6 ? 100 : step <= 11 ? 60 : 58) * ms; };
  const WarmUp done = until_steady();
  EXPECT_THAT(script_.asked, ElementsAre(1, 1, 5, 5, 5));
  EXPECT_EQ(done.steps, 17);
  EXPECT_NEAR(done.step_seconds, 0.058, 1e-12);
  EXPECT_TRUE(done.trusted);
}

TEST_F(WarmUpRule, MediansLetOneSlowStepPass) {
  script_.step_ns = [](int step) { return (step % 5 == 3 ? 500 : 10) * ms; };
  EXPECT_EQ(until_steady().steps, 12);
}

TEST_F(WarmUpRule, EndsAtTheLimitThoughNeverSteady) {
  rule_.limit = Seconds{0.02};
  int window = 0;
  script_.step_ns = [&](int step) { return (1 + step / 5) * 1000; };
  script_.before_run = [&](int) {
    ++window;
    const auto until = Clock::now() + std::chrono::milliseconds(5);
    while (Clock::now() < until) {
    }
  };
  until_steady();
  EXPECT_GE(window, 2);
  EXPECT_LE(window, 6);
}

TEST_F(WarmUpRule, CutsWindowsThatWouldPassTheLimit) {
  script_.step_ns = [](int) { return 2000 * ms; };  // one fits into 3 s
  rule_.limit = Seconds{3.0};
  script_.before_run = [](int call) {
    if (call > 3) throw Interrupted();  // the fake takes no time, so that the limit is never reached
  };
  EXPECT_THROW(until_steady(), Interrupted);
  EXPECT_THAT(script_.asked, ElementsAre(1, 1, 1, 1));
}

TEST_F(WarmUpRule, LaterRoundsHaveNoFirstStep) {
  until_steady(0.01);
  EXPECT_THAT(script_.asked, ElementsAre(5, 5));
}

TEST(StepsFor, CoversTheTimeWithinBounds) {
  EXPECT_EQ(steps_for(Seconds{1.0}, 0.1), 11);
  EXPECT_EQ(steps_for(Seconds{1.0}, 5.0), 1);
  EXPECT_EQ(steps_for(Seconds{0.0}, 0.1), 1);
  EXPECT_EQ(steps_for(Seconds{1.0}, 0.0), 1);
  EXPECT_EQ(steps_for(Seconds{1e6}, 1e-9), 1'000'000);
}

}  // namespace
}  // namespace dtrain::measure
