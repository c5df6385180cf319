#include <gtest/gtest.h>

#include "base/error.hpp"
#include "comm/communicator.hpp"

namespace {

using namespace dtrain;
using comm::choose_communicator;

ErrorCategory refusal(const std::string& asked, const std::string& device, bool share) {
  try {
    choose_communicator(asked, device, share);
  } catch (const Error& error) {
    EXPECT_FALSE(error.advice().empty());
    return error.category();
  }
  return ErrorCategory::run;
}

TEST(Choice, FollowsTheDevice) {
  EXPECT_EQ(choose_communicator("auto", "cpu", false), "shared_memory");
  EXPECT_EQ(choose_communicator("auto", "cpu", true), "shared_memory");
  EXPECT_EQ(choose_communicator("auto", "cuda", false), "nccl");
  EXPECT_EQ(choose_communicator("auto", "cuda", true), "cuda_local");
  EXPECT_EQ(choose_communicator("cuda_local", "cuda", false), "cuda_local");
  EXPECT_EQ(choose_communicator("shared_memory", "cpu", false), "shared_memory");
}

TEST(Choice, RefusesWhatCannotServe) {
  EXPECT_EQ(refusal("nccl", "cuda", true), ErrorCategory::environment);
  EXPECT_EQ(refusal("nccl", "cpu", false), ErrorCategory::usage);
  EXPECT_EQ(refusal("cuda_local", "cpu", false), ErrorCategory::usage);
  EXPECT_EQ(refusal("shared_memory", "cuda", false), ErrorCategory::usage);
  EXPECT_EQ(refusal("ncl", "cuda", false), ErrorCategory::usage);
}

TEST(Choice, FollowsWhereTheRanksAre) {
  EXPECT_EQ(choose_communicator({.spans_workers = true}), "gloo");
  EXPECT_EQ(choose_communicator({.asked = "gloo", .spans_workers = true}), "gloo");
  EXPECT_EQ(choose_communicator({.asked = "mpi", .spans_workers = true}), "mpi");
  EXPECT_EQ(choose_communicator({.device = "cuda", .spans_workers = true}), "nccl");
}

ErrorCategory refusal(const comm::CommunicatorChoice& choice, const std::string& words) {
  try {
    choose_communicator(choice);
  } catch (const Error& error) {
    EXPECT_NE((std::string(error.what()) + error.advice()).find(words), std::string::npos) << error.what();
    return error.category();
  }
  return ErrorCategory::run;
}

TEST(Choice, RefusesWhatDoesNotReachFarEnoughOrIsForMore) {
  EXPECT_EQ(refusal({.asked = "shared_memory", .spans_workers = true}, "several workers"),
            ErrorCategory::usage);
  EXPECT_EQ(refusal({.asked = "gloo"}, "dtrain launch"), ErrorCategory::usage);
  EXPECT_EQ(refusal({.asked = "mpi"}, "one process"), ErrorCategory::usage);
  EXPECT_EQ(refusal({.asked = "gloo", .device = "cuda", .spans_workers = true}, "GPUs"),
            ErrorCategory::usage);
  EXPECT_EQ(refusal({.asked = "gluu", .spans_workers = true}, "did you mean 'gloo'"), ErrorCategory::usage);
}

TEST(Choice, OneTableHasAllNames) {
  EXPECT_EQ(comm::communicators().names(),
            (std::vector<std::string>{"shared_memory", "nccl", "cuda_local", "gloo", "mpi"}));
}

TEST(Choice, WithoutTheModuleItsCommunicatorsSaySo) {
  for (const char* name : {"nccl", "cuda_local"}) {
    try {
      comm::local_communicators().at(name).value({.size = 1});
      FAIL() << name << " was made without the module";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::environment);
    }
  }
}

}  // namespace
