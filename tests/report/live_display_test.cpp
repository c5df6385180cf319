#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <thread>

#include "base/units.hpp"
#include "report/live_display.hpp"

namespace dtrain::report {
namespace {

using testing::HasSubstr;
using testing::Not;

LiveState state() {
  return {.run = "mirrored-4",
          .part = "round",
          .index = 2,
          .count = 5,
          .warming_up = false,
          .step = 30,
          .steps = 64,
          .images_per_second = 3310.4,
          .finished_rates = {3290.0, 3340.0, 3300.0},
          .loss = 1.23456,
          .seconds_left = 12.3};
}

TEST(LiveText, SaysWhereTheMeasurementIs) {
  EXPECT_EQ(live_text(state(), 200),
            "mirrored-4  round 2/5  step 30/64  3,310 images/s (rounds so far 3,290 to 3,340)  loss 1.2346  "
            "about 12 s left");
}

TEST(LiveText, LeavesOutWhatIsNotKnown) {
  LiveState s = state();
  s.steps = 0;
  s.finished_rates = {3290.0};
  s.seconds_left.reset();
  EXPECT_EQ(live_text(s, 200),
            "mirrored-4  round 2/5  step 30  3,310 images/s (last round 3,290)  loss 1.2346");
  s.step = 0;
  s.images_per_second = 0.0;
  EXPECT_EQ(live_text(s, 200), "mirrored-4  round 2/5  step 0");
  s.warming_up = true;
  EXPECT_EQ(live_text(s, 200), "mirrored-4  round 2/5  warming up, step 0");
}

TEST(LiveText, FitsTheWindow) {
  for (const int width : {12, 20, 40, 79})
    EXPECT_LE(live_text(state(), width).size(), static_cast<std::size_t>(width));
}

// Everything that can be read from a descriptor until it is closed.
std::string drain(int fd) {
  std::string out;
  char buffer[4096];
  for (ssize_t got = ::read(fd, buffer, sizeof buffer); got > 0; got = ::read(fd, buffer, sizeof buffer)) {
    out.append(buffer, static_cast<std::size_t>(got));
  }
  return out;
}

config::RunPlan plan() {
  config::RunPlan plan;
  plan.id = "mirrored-2";
  plan.replicas = 2;
  return plan;
}

measure::Samples samples(int rounds) {
  measure::Samples samples;
  auto& run = samples.runs.emplace_back();
  run.plan = plan();
  for (int i = 0; i < rounds; ++i) {
    measure::RoundSample round;
    round.images = 2000;
    round.seconds = 2.0;
    run.rounds.push_back(round);
  }
  return samples;
}

TEST(LiveDisplay, PrintsPlainLinesAtRoundsWhereNoTerminalIs) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  {
    LiveDisplay display(std::make_shared<measure::LiveStep>(), 1, pipe_ends[1]);
    display.round_begins(plan(), 1, 2, true);
    display.round_begins(plan(), 1, 2, false);
    display.round_ended(samples(1), 0, 1, 2);
    display.round_begins(plan(), 2, 2, true);
    auto failed = samples(1);
    failed.runs[0].failure = "rank 1 is lost\x1b[2J";
    display.run_failed(failed, 0, 2, 2);
    display.message("a line");
  }
  ::close(pipe_ends[1]);
  EXPECT_EQ(
      drain(pipe_ends[0]),
      "mirrored-2  round 1/2  1,000 images/s\nmirrored-2  round 2/2  failed: rank 1 is lost?[2J\na line\n");
  ::close(pipe_ends[0]);
}

TEST(LiveDisplay, SaysNothingWhenQuiet) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  {
    LiveDisplay display(std::make_shared<measure::LiveStep>(), 1, pipe_ends[1], true);
    display.round_begins(plan(), 1, 2, false);
    display.round_ended(samples(1), 0, 1, 2);
  }
  ::close(pipe_ends[1]);
  EXPECT_EQ(drain(pipe_ends[0]), "");
  ::close(pipe_ends[0]);
}

TEST(LiveDisplay, RedrawsOneLineOnATerminalAndWipesIt) {
  int controller = -1;
  int terminal = -1;
  winsize window{.ws_row = 24, .ws_col = 120, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::openpty(&controller, &terminal, nullptr, nullptr, &window), 0);
  std::string seen;
  std::thread reader([&] { seen = drain(controller); });
  {
    auto live = std::make_shared<measure::LiveStep>();
    LiveDisplay display(live, 2, terminal);
    display.round_begins(plan(), 1, 2, true);
    display.round_begins(plan(), 1, 2, false);
    live->begin_ns = now_ns();
    live->planned = 64;
    live->images = 640;
    live->loss = 1.5;
    live->steps = 10;
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    display.round_ended(samples(1), 0, 1, 2);
  }
  ::close(terminal);
  reader.join();
  ::close(controller);
  EXPECT_THAT(seen, HasSubstr("mirrored-2  round 1/2  step 10/64"));
  EXPECT_THAT(seen, HasSubstr("loss 1.5000"));
  EXPECT_THAT(seen, Not(HasSubstr("\n")));
  EXPECT_TRUE(seen.ends_with("\r\x1b[2K")) << seen;
}

TEST(LiveDisplay, MayBeStoppedTwiceAndShowsNothingAfter) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  LiveDisplay display(std::make_shared<measure::LiveStep>(), 1, pipe_ends[1]);
  display.round_begins(plan(), 1, 1, false);
  display.stop();
  display.round_ended(samples(1), 0, 1, 1);
  display.stop();
  ::close(pipe_ends[1]);
  EXPECT_EQ(drain(pipe_ends[0]), "");
  ::close(pipe_ends[0]);
}

}  // namespace
}  // namespace dtrain::report
