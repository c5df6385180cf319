#include "process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "job.hpp"

namespace dtrain::cluster {
namespace {

using testing::HasSubstr;

// A job of processes.
class Processes : public testing::Test {
 protected:
  void start(int world, const std::string& then, const std::string& timeout = "2.5",
             const std::string& rendezvous_timeout = "30", int missing = -1) {
    const std::string address = free_address();
    for (int rank = 0; rank < world; ++rank) {
      if (rank == missing) continue;
      processes.push_back(std::make_unique<Process>(
          std::vector<std::string>{DTRAIN_CLUSTER_MEMBER, std::to_string(rank), std::to_string(world),
                                   address, then, timeout, rendezvous_timeout}));
    }
  }
  void expect_started() {
    for (auto& process : processes) process->expect_line("started");
  }
  // All but one tell this, each with its own exit.
  void expect_ended(std::size_t lost, const std::string& what) {
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      if (rank == lost) continue;
      EXPECT_EQ(processes[rank]->wait(), 5) << "rank " << rank;
      EXPECT_EQ(processes[rank]->output(), "started\nended: " + what + "\n") << "rank " << rank;
    }
  }

  std::vector<std::unique_ptr<Process>> processes;
};

TEST_F(Processes, LeaveInOrder) {
  start(4, "leave");
  for (auto& process : processes) {
    EXPECT_EQ(process->wait(), 0);
    EXPECT_EQ(process->output(), "started\nleft\n");
  }
}

TEST_F(Processes, AKilledMemberEndsTheJobAtOnce) {
  start(4, "wait", "60");
  expect_started();
  processes[2]->signal(SIGKILL);
  expect_ended(2, "worker 2 ended without a word");
}

TEST_F(Processes, AMemberThatExitsWithoutLeavingEndsTheJob) {
  const std::string address = free_address();
  for (int rank = 0; rank < 3; ++rank) {
    processes.push_back(std::make_unique<Process>(
        std::vector<std::string>{DTRAIN_CLUSTER_MEMBER, std::to_string(rank), "3", address,
                                 rank == 1 ? "vanish" : "wait", "60", "30"}));
  }
  expect_ended(1, "worker 1 ended without a word");
}

TEST_F(Processes, AKilledChiefEndsTheJobAtOnce) {
  start(3, "wait", "60");
  expect_started();
  processes[0]->signal(SIGKILL);
  expect_ended(0, "worker 0 ended without a word");
}

TEST_F(Processes, AStoppedMemberIsFoundByItsSilence) {
  start(3, "wait");
  expect_started();
  processes[1]->signal(SIGSTOP);
  expect_ended(1, "worker 1 does not answer for 2.5 s");
  processes[1]->signal(SIGCONT);
  EXPECT_EQ(processes[1]->wait(), 5);
  EXPECT_THAT(processes[1]->output(), HasSubstr("ended: worker 1 does not answer for 2.5 s"));
}

TEST_F(Processes, AStoppedChiefIsFoundByItsSilence) {
  start(3, "wait");
  expect_started();
  processes[0]->signal(SIGSTOP);
  expect_ended(0, "worker 0 does not answer for 2.5 s");
  processes[0]->signal(SIGCONT);
  EXPECT_EQ(processes[0]->wait(), 5);
  EXPECT_THAT(processes[0]->output(), HasSubstr("ended: worker 0 does not answer for 2.5 s"));
}

TEST_F(Processes, AShortStopIsForgiven) {
  start(3, "wait", "5");
  expect_started();
  for (const auto& process : processes) process->signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (const auto& process : processes) process->signal(SIGCONT);
  processes[2]->signal(SIGKILL);
  expect_ended(2, "worker 2 ended without a word");
}

TEST_F(Processes, AMemberThatNeverComesIsListed) {
  start(3, "wait", "20", "3", 1);
  for (auto& process : processes) {
    EXPECT_EQ(process->wait(), 5);
    EXPECT_THAT(process->output(), HasSubstr("run: 2 of 3 present after 3 s; missing: worker 1\n"));
  }
}

TEST_F(Processes, ManyJoinAndLeave) {
  start(16, "leave", "20");
  for (auto& process : processes) EXPECT_EQ(process->wait(), 0);
}

}  // namespace
}  // namespace dtrain::cluster
