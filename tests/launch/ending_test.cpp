#include "launch/ending.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace dtrain::launch {
namespace {

Ending code(int code, double seconds) { return {code, 0, seconds, false}; }
Ending signal(int number, double seconds) { return {0, number, seconds, false}; }
Ending stopped_by_launch(int code, int number, double seconds) { return {code, number, seconds, true}; }

TEST(Ending, IsToldInWords) {
  EXPECT_EQ(code(0, 1).describe(), "ended with exit code 0");
  EXPECT_EQ(code(3, 1).describe(), "ended with exit code 3 (environment)");
  EXPECT_EQ(code(77, 1).describe(), "ended with exit code 77");
  EXPECT_EQ(signal(SIGKILL, 1).describe(), "was ended by signal 9 (Killed)");
  EXPECT_EQ(signal(SIGSEGV, 1).describe(), "was ended by signal 11 (Segmentation fault)");
}

TEST(Ending, TheFirstToFailGivesTheExitCode) {
  EXPECT_EQ(cause_of({code(0, 1), code(0, 2)}), std::nullopt);
  EXPECT_EQ(exit_code_of({code(0, 1), code(0, 2)}), ExitCode::fine);
  EXPECT_EQ(cause_of({code(5, 3), code(3, 1), code(4, 2)}), 1U);
  EXPECT_EQ(exit_code_of({code(5, 3), code(3, 1), code(4, 2)}), ExitCode::environment);
  EXPECT_EQ(static_cast<int>(exit_code_of({code(77, 1), code(5, 2)})), 77);
}

TEST(Ending, ASignalCountsAsAFailedRun) {
  EXPECT_EQ(cause_of({code(5, 3), signal(SIGKILL, 1)}), 1U);
  EXPECT_EQ(exit_code_of({code(5, 3), signal(SIGKILL, 1)}), ExitCode::run);
}

TEST(Ending, AnEchoIsNotTheCause) {
  EXPECT_EQ(cause_of({code(5, 1), code(4, 2)}), 1U);
  EXPECT_EQ(exit_code_of({code(5, 1), code(4, 2)}), ExitCode::data);
  EXPECT_EQ(cause_of({code(5, 1), signal(SIGKILL, 1.001)}), 1U);
  EXPECT_EQ(cause_of({code(5, 2), code(5, 1)}), 1U);
  EXPECT_EQ(cause_of({signal(SIGKILL, 1), code(3, 2)}), 0U) << "what was lost first is no echo";
}

TEST(Ending, WhatLaunchStoppedIsNotTheCause) {
  EXPECT_EQ(cause_of({code(5, 2), stopped_by_launch(0, SIGKILL, 1)}), 0U);
  EXPECT_EQ(cause_of({stopped_by_launch(130, 0, 1), stopped_by_launch(0, SIGTERM, 1)}), std::nullopt);
}

TEST(Ending, AVerdictIsNoFailure) {
  EXPECT_EQ(cause_of({code(1, 1), code(0, 2)}), std::nullopt);
  EXPECT_EQ(exit_code_of({code(1, 1), code(0, 2)}), ExitCode::regression);
  EXPECT_EQ(exit_code_of({code(6, 1), code(0, 2)}), ExitCode::no_verdict);
  EXPECT_EQ(exit_code_of({code(1, 1), code(5, 2)}), ExitCode::run);
}

}  // namespace
}  // namespace dtrain::launch
