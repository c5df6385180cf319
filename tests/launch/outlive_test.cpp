// No process of a job outlives it, or the process that started it, whatever ends that.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "shell_job.hpp"

namespace dtrain::launch {
namespace {

namespace fs = std::filesystem;

class Outlive : public ShellJob {
 protected:
  // Living processes that were started with `mark` among their arguments.
  static int living(const std::string& mark) {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string arguments = text_of(entry.path() / "cmdline");  // empty for what has ended
      if (arguments.find(mark) != std::string::npos) ++count;
    }
    return count;
  }

  static bool comes_to_none(const std::string& mark) {
    const Deadline deadline = Deadline::in(Seconds(20.0));
    while (living(mark) > 0) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  // A duration that nobody else sleeps for, which so marks this test's processes.
  static std::string mark(int number) { return fmt::format("1{:06}.{}", ::getpid(), number); }

  // Runs the job in a process of its own.
  pid_t start(const JobConfig& config) const {
    const pid_t id = ::fork();
    if (id == 0) {
      ::close(STDOUT_FILENO);
      ::close(STDERR_FILENO);
      Signals signals;
      run_job(config, signals);
      ::_exit(0);
    }
    return id;
  }
};

TEST_F(Outlive, ProcessesDieWithTheOneThatStartedThem) {
  const std::string sleep = mark(0);
  const std::string script = "exec sleep " + sleep;
  const pid_t launcher = start(job({script, script, script}));
  const std::string command = "sleep" + std::string(1, '\0') + sleep;  // the shells have become it
  const Deadline deadline = Deadline::in(Seconds(20.0));
  while (living(command) < 3 && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(living(command), 3);
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(comes_to_none(sleep));
}

TEST_F(Outlive, ProcessesDieEvenWhenTheyHaveHardlyBeenStarted) {
  const std::string sleep = mark(1);
  const std::string script = "exec sleep " + sleep;
  for (int microseconds = 0; microseconds < 8000; microseconds += 400) {
    const pid_t launcher = start(job({script, script, script, script}));
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    ::kill(launcher, SIGKILL);
    ::waitpid(launcher, nullptr, 0);
  }
  EXPECT_TRUE(comes_to_none(sleep));
}

TEST_F(Outlive, WhatAProcessLeavesBehindEndsWithIt) {
  const std::string sleep = mark(2);
  Signals signals;
  const JobOutcome outcome = run_job(job({"sleep " + sleep + " & exit 0"}), signals);
  EXPECT_EQ(exit_code_of(outcome.endings), ExitCode::fine);
  EXPECT_TRUE(comes_to_none(sleep));
}

TEST_F(Outlive, AnErrorOfTheJobEndsItsProcesses) {
  const std::string sleep = mark(3);
  JobConfig config = job({"exec sleep " + sleep});
  config.on_start = [](const std::vector<pid_t>&) { throw std::runtime_error("no more"); };
  Signals signals;
  EXPECT_THROW(run_job(config, signals), std::runtime_error);
  EXPECT_EQ(living(sleep), 0) << "they are gone before the error arrives";
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "and waited for";
}

}  // namespace
}  // namespace dtrain::launch
