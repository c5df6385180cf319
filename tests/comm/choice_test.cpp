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
