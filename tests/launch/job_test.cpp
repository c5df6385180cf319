#include <gmock/gmock.h>

#include <csignal>

#include "shell_job.hpp"

namespace dtrain::launch {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

class Job : public ShellJob {
 protected:
  struct Ran {
    JobOutcome outcome;
    std::string out;
    std::string error;
  };

  static Ran run(const JobConfig& config) {
    CaptureStdout();
    CaptureStderr();
    Signals signals;
    Ran ran{run_job(config, signals), {}, {}};
    ran.out = GetCapturedStdout();
    ran.error = GetCapturedStderr();
    return ran;
  }
  Ran run(const std::vector<std::string>& scripts) const { return run(job(scripts)); }
};

TEST_F(Job, ShowsWhoSaysWhat) {
  const Ran ran = run({"echo to out; echo to error >&2; printf 'no end'"});
  EXPECT_EQ(ran.out, "[worker 0] to out\n[worker 0] no end\n");
  EXPECT_EQ(ran.error, "[worker 0] to error\n");
  EXPECT_EQ(exit_code_of(ran.outcome.endings), ExitCode::fine);
  const std::string logged = text_of(log(0));
  for (const char* line :
       {"  to out\n", "  to error\n", "  no end\n", "  -- worker 0 ended with exit code 0\n"})
    EXPECT_THAT(logged, HasSubstr(line));
}

TEST_F(Job, LeavesStdoutToTheProcessThatSharesIt) {
  JobConfig config = job({"printf 'the\\rreport'", "echo aside"});
  config.processes[0].spec.shares_stdout = true;
  const Ran ran = run(config);
  EXPECT_THAT(ran.out, HasSubstr("the\rreport"));
  EXPECT_THAT(ran.out, Not(HasSubstr("[worker 0]")));
  EXPECT_THAT(ran.out, HasSubstr("[worker 1] aside\n"));
}

TEST_F(Job, GivesNothingToRead) {
  EXPECT_EQ(run({"if read line; then echo got; else echo nothing; fi"}).out, "[worker 0] nothing\n");
}

TEST_F(Job, AddsToLogsWhenItIsStartedAgain) {
  JobConfig config = job({"echo first"});
  run(config);
  config.processes[0].spec.arguments[2] = "echo second";
  config.again = "restart 1 of 1";
  run(config);
  EXPECT_THAT(text_of(log(0)),
              testing::AllOf(HasSubstr("first"), HasSubstr("-- restart 1 of 1\n"), HasSubstr("second")));
  config.again.clear();
  run(config);
  EXPECT_THAT(text_of(log(0)), Not(HasSubstr("first")));
}

TEST_F(Job, SaysTheSameErrorOnce) {
  const std::string fails = "echo 'error: no such file' >&2; echo '  -> name one' >&2; exit 4";
  const Ran ran = run({fails, fails, fails});
  EXPECT_THAT(ran.error, testing::MatchesRegex("\\[worker .\\] error: no such file\n"
                                               "\\[worker .\\]   -> name one\n"));
  EXPECT_EQ(ran.outcome.repeated_errors, 2);
  EXPECT_EQ(exit_code_of(ran.outcome.endings), ExitCode::data);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_THAT(text_of(log(i)), HasSubstr("error: no such file"));
}

TEST_F(Job, SaysOfAWrongCommandLineOnlyOnceWhatIsWrong) {
  const Ran ran = run({"echo 'error: I am worker 0' >&2; exit 2", "echo 'error: I am worker 1' >&2; exit 2"});
  EXPECT_EQ(std::count(ran.error.begin(), ran.error.end(), '\n'), 1) << ran.error;
  EXPECT_EQ(ran.outcome.repeated_errors, 1);
}

TEST_F(Job, ShowsErrorsThatWereNotTheEnd) {
  const Ran ran = run({"echo 'error: one' >&2; echo '  -> hint' >&2; echo more >&2; echo 'error: two' >&2"});
  EXPECT_EQ(ran.error,
            "[worker 0] error: one\n[worker 0]   -> hint\n[worker 0] more\n[worker 0] error: two\n");
}

TEST_F(Job, NoticesATakenPort) {
  EXPECT_TRUE(run({"echo 'error: 127.0.0.1:1 is in use' >&2; exit 3"}).outcome.port_taken);
  EXPECT_FALSE(run({"echo 'error: 127.0.0.1:1 is in use' >&2; exit 5"}).outcome.port_taken);
  EXPECT_FALSE(run({"echo 'error: no memory' >&2; exit 3"}).outcome.port_taken);
}

TEST_F(Job, DoesNotLetOthersWaitForOneWhosePortIsTaken) {
  JobConfig config = job({"echo 'error: 127.0.0.1:1 is in use' >&2; exit 3", "sleep 1000"});
  config.timeout = Seconds(1000.0);
  const Ran ran = run(config);
  EXPECT_TRUE(ran.outcome.port_taken);
  EXPECT_EQ(ran.outcome.endings[1].signal, SIGTERM);
  EXPECT_EQ(cause_of(ran.outcome.endings), 0U);
}

TEST_F(Job, AProgramThatCannotBeRunSaysSo) {
  JobConfig config = job({"true"});
  config.processes[0].spec.program = folder_ / "gone";
  const Ran ran = run(config);
  EXPECT_EQ(exit_code_of(ran.outcome.endings), ExitCode::environment);
  EXPECT_THAT(ran.error, HasSubstr("gone cannot be started: No such file or directory"));
}

TEST_F(Job, AKilledProcessIsTheCause) {
  JobConfig config = job({"sleep 0.05; exit 5", "kill -9 $$"});
  config.timeout = Seconds(60.0);
  const Ran ran = run(config);
  EXPECT_EQ(cause_of(ran.outcome.endings), 1U);
  EXPECT_EQ(ran.outcome.endings[1].signal, SIGKILL);
  EXPECT_FALSE(ran.outcome.endings[1].brought_about);
  EXPECT_EQ(ran.outcome.endings[0].code, 5) << "there was time to end by itself";
}

TEST_F(Job, OthersAreAskedToEndAndThenKilled) {
  const Ran ran = run({"exit 5", "trap 'exit 130' TERM; while :; do sleep 0.01; done",
                       "trap '' TERM; while :; do sleep 0.01; done", "kill -STOP $$"});
  EXPECT_EQ(cause_of(ran.outcome.endings), 0U);
  EXPECT_EQ(ran.outcome.endings[1].code, 130);
  EXPECT_TRUE(ran.outcome.endings[1].brought_about);
  EXPECT_GE(ran.outcome.endings[1].seconds, 0.4);  // timeout and grace
  for (const std::size_t obstinate : {2U, 3U}) {
    EXPECT_EQ(ran.outcome.endings[obstinate].signal, SIGKILL);
    EXPECT_GE(ran.outcome.endings[obstinate].seconds, 0.6);
  }
}

TEST_F(Job, PassesTheFirstSignalOn) {
  for (const std::string signal : {"INT", "TERM"}) {
    JobConfig config = job({"trap 'echo asked; exit 130' " + signal + "; kill -s " + signal +
                            " $PPID; while :; do sleep 0.01; done"});
    config.timeout = Seconds(60.0);
    const Ran ran = run(config);
    EXPECT_EQ(ran.outcome.interrupted_by, signal == "INT" ? SIGINT : SIGTERM);
    EXPECT_EQ(ran.outcome.endings[0].code, 130);
    EXPECT_TRUE(ran.outcome.endings[0].brought_about);
    EXPECT_EQ(ran.out, "[worker 0] asked\n");
  }
}

TEST_F(Job, ASecondSignalKills) {
  JobConfig config = job({"trap '' INT TERM; kill -s INT $PPID; kill -s TERM $PPID; sleep 1000"});
  config.timeout = Seconds(1000.0);
  const Ran ran = run(config);
  EXPECT_EQ(ran.outcome.interrupted_by, SIGINT);
  EXPECT_EQ(ran.outcome.endings[0].signal, SIGKILL);
}

TEST_F(Job, SignalsArriveAsBeforeWhenItIsOver) {
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, nullptr, &before);
  run({"true"});
  sigset_t after;
  ::sigprocmask(SIG_BLOCK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
    EXPECT_EQ(::sigismember(&after, signal), ::sigismember(&before, signal));
}

TEST_F(Job, RelaysMoreThanAPipeHolds) {
  const Ran ran = run(
      {"i=0; while [ $i -lt 3000 ]; do echo 'a line of some forty characters, no more'; i=$((i+1)); done"});
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 3000);
}

}  // namespace
}  // namespace dtrain::launch
