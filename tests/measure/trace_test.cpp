#include "measure/trace.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "base/units.hpp"
#include "stretches.hpp"

namespace dtrain::measure {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Trace : public ::testing::Test {
 protected:
  Trace() : folder_(fs::temp_directory_path() / fmt::format("dtrain-trace-{}", ::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Trace() override { fs::remove_all(folder_); }

  fs::path file(const std::string& name = "trace.json") const { return folder_ / name; }

  static std::string text_of(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  fs::path folder_;
};

StretchRecord late_second_rank(int steps = 2) {
  return make_stretch(2, steps, [](std::size_t rank, int) {
    return StepShape{.input = (rank == 1 ? 5 : 1) * ms, .in_backward = ms / 2};
  });
}

json find_event(const json& events, const std::string& name, int rank, int nth = 0) {
  for (const auto& event : events) {
    if (event["name"] == name && event["tid"] == rank && event["ph"] != "M" && nth-- == 0) return event;
  }
  ADD_FAILURE() << name << " of rank " << rank << " not found";
  return json{{"ts", -1.0}, {"dur", -1.0}};
}

TEST_F(Trace, IsValidBeforeTheFirstStretch) {
  TraceWriter writer(file());
  EXPECT_EQ(json::parse(text_of(file())), json::array());
}

TEST_F(Trace, HoldsThePhasesWhereTheyWereStamped) {
  TraceWriter writer(file());
  writer.append("mirrored-2", 1, late_second_rank());
  const json events = json::parse(text_of(file()));

  // Step 0 of rank 0: input 1, forward 2, backward 3, in backward 0.5, arrival at 6.5, last arrival at 10.5.
  EXPECT_DOUBLE_EQ(find_event(events, "step", 0)["dur"], 12500.0);
  EXPECT_DOUBLE_EQ(find_event(events, "input", 0)["ts"], 0.0);
  EXPECT_DOUBLE_EQ(find_event(events, "input", 0)["dur"], 1000.0);
  EXPECT_DOUBLE_EQ(find_event(events, "forward", 0)["ts"], 1000.0);
  EXPECT_DOUBLE_EQ(find_event(events, "backward", 0)["ts"], 3000.0);
  EXPECT_DOUBLE_EQ(find_event(events, "communication", 0, 0)["dur"], 500.0);
  EXPECT_DOUBLE_EQ(find_event(events, "arrival", 0)["ts"], 6500.0);
  EXPECT_DOUBLE_EQ(find_event(events, "communication", 0, 1)["ts"], 6500.0);
  EXPECT_DOUBLE_EQ(find_event(events, "communication", 0, 1)["dur"], 5000.0);
  EXPECT_DOUBLE_EQ(find_event(events, "straggler wait", 0)["dur"], 4000.0);
  EXPECT_DOUBLE_EQ(find_event(events, "update", 0)["ts"], 11500.0);
  EXPECT_DOUBLE_EQ(find_event(events, "step", 0, 1)["ts"], 12500.0);
  EXPECT_EQ(find_event(events, "step", 0, 1)["args"]["images"], 8);

  int waits = 0;
  for (const auto& event : events) waits += event["name"] == "straggler wait" ? 1 : 0;
  EXPECT_EQ(waits, 2);  // rank 1 comes last and waits for nobody
}

TEST_F(Trace, ShowsRunsAsProcessesAndRanksAsThreads) {
  TraceWriter writer(file());
  writer.append("mirrored-2", 1, late_second_rank());
  writer.append("a \"quoted\" run", 1, late_second_rank());
  writer.append("mirrored-2", 2, late_second_rank());
  const json events = json::parse(text_of(file()));
  std::vector<std::string> processes;
  for (const auto& event : events) {
    if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(processes, (std::vector<std::string>{"mirrored-2", "a \"quoted\" run"}));
  EXPECT_EQ(events.back()["pid"], 1);
}

TEST_F(Trace, PutsOneEventOnALine) {
  TraceWriter writer(file());
  writer.append("r", 1, late_second_rank());
  writer.append("r", 2, late_second_rank());
  const std::string text = text_of(file());
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  EXPECT_EQ(lines, json::parse(text).size() + 2);
}

TEST_F(Trace, StopsAtItsLimitAndSaysSo) {
  TraceWriter writer(file(), {.events = 400, .events_per_stretch = 400});
  for (int round = 1; round <= 20; ++round) writer.append("r", round, late_second_rank(10));
  const json events = json::parse(text_of(file()));
  EXPECT_LE(events.size(), 400U + 1U);
  EXPECT_GT(events.size(), 300U);
  EXPECT_EQ(events.back()["name"], "trace ends here: limit of 400 events");
}

TEST_F(Trace, LeavesRoomForOtherRunsBesideOneOfShortSteps) {
  TraceWriter writer(file(), {.events = 10'000, .events_per_stretch = 180});
  writer.append("short", 1, late_second_rank(500));
  writer.append("long", 1, late_second_rank(3));
  const json events = json::parse(text_of(file()));
  bool said = false;
  for (const auto& event : events) said = said || event["name"] == "490 of 500 steps left out";
  EXPECT_TRUE(said);
  EXPECT_EQ(events.back()["pid"], 2);
}

TEST_F(Trace, IsValidWithNoRoomForASingleStep) {
  TraceWriter writer(file(), {.events = 1, .events_per_stretch = 1});
  writer.append("r", 1, late_second_rank(5));
  writer.append("r", 2, late_second_rank(5));
  EXPECT_NO_THROW(json::parse(text_of(file())));
}

TEST_F(Trace, IsValidWhenStepsTakeNoTime) {
  TraceWriter writer(file());
  writer.append(
      "r", 1, make_stretch(1, 2, [](std::size_t, int) { return StepShape{0, 0, 0, 0, 0, 0, 0, 1, false}; }));
  writer.append("r", 2, StretchRecord{});
  EXPECT_NO_THROW(json::parse(text_of(file())));
}

TEST_F(Trace, LeavesNothingBesideItAndKeepsALink) {
  fs::create_symlink(file("target.json"), file("link.json"));
  {
    TraceWriter writer(file("link.json"));
    writer.append("r", 1, late_second_rank());
    writer.append("r", 2, late_second_rank());
  }
  EXPECT_TRUE(fs::is_symlink(file("link.json")));
  EXPECT_GT(json::parse(text_of(file("target.json"))).size(), 10U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
}

TEST_F(Trace, RefusesWhatIsNotAFileItCanWrite) {
  const auto category = [](const fs::path& path) {
    try {
      TraceWriter writer(path);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
      return error.category();
    }
    ADD_FAILURE() << "accepted " << path;
    return ErrorCategory::run;
  };
  EXPECT_EQ(category(folder_), ErrorCategory::environment);
  EXPECT_EQ(category("/dev/null"), ErrorCategory::environment);
  EXPECT_EQ(category(file("missing") / "trace.json"), ErrorCategory::environment);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

// Runs `write` in a child, waits until it has written some, and kills it after some more time.
void kill_while(const std::function<void()>& write, const fs::path& path, std::chrono::microseconds after) {
  constexpr std::uintmax_t some = 10'000;
  const Deadline deadline = Deadline::in(Seconds{20.0});
  fs::remove(path);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      write();
    } catch (...) {
    }
    ::_exit(1);
  }
  std::error_code error;
  while (!deadline.passed() && (!fs::exists(path, error) || fs::file_size(path, error) < some)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
}

TEST_F(Trace, IsStrictlyValidAfterAKillAtAnyMoment) {
  const StretchRecord stretch = late_second_rank(400);
  std::size_t longest = 0;
  for (int attempt = 0; attempt < 4; ++attempt) {
    kill_while(
        [&] {
          TraceWriter writer(file(), {.events = 100'000'000, .events_per_stretch = 100'000'000});
          for (int round = 1;; ++round) writer.append("mirrored-2", round, stretch);
        },
        file(), std::chrono::microseconds(attempt * 3'137));
    const std::string text = text_of(file());
    longest = std::max(longest, text.size());
    ASSERT_TRUE(json::accept(text)) << "attempt " << attempt << ", " << text.size() << " bytes";
  }
  EXPECT_GT(longest, 10'000U);
}

// Large blocks, so that nearly every kill falls into a write: written in place, some of them would be cut.
TEST_F(Trace, ItsFileSurvivesAKillWithinAWrite) {
  std::string block = "0";
  while (block.size() < 4'000'000) block += ",\n1234567";
  for (int attempt = 0; attempt < 4; ++attempt) {
    kill_while(
        [&] {
          JsonArrayFile array(file());
          for (int i = 0; i < 10; ++i) array.append(block);
          ::pause();
        },
        file(), std::chrono::microseconds(attempt * 1'713));
    ASSERT_TRUE(json::accept(text_of(file()))) << "attempt " << attempt;
  }
}

}  // namespace
}  // namespace dtrain::measure
