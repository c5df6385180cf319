#include "backend/cuda/cudnn/plan_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace dtrain::backend::cuda {
namespace {

namespace fs = std::filesystem;
using testing::Optional;

class PlanCaches : public testing::Test {
 protected:
  PlanCaches() {
    std::string name = (fs::temp_directory_path() / "dtrain-plans-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~PlanCaches() override { fs::remove_all(folder_); }

  PlanCache open(const std::string& device = "NVIDIA H200 (compute capability 9.0)",
                 std::size_t version = 91900) const {
    return {folder_ / "plans", device, version};
  }
  static OperationGraph graph(const std::string& signature) {
    OperationGraph made;
    made.signature = signature;
    return made;
  }
  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  fs::path folder_;
  Policy tf32_;
};

TEST_F(PlanCaches, RememberBetweenRuns) {
  PlanCache cache = open();
  EXPECT_EQ(cache.find(tf32_, graph("a")), std::nullopt);
  cache.remember(tf32_, graph("a"), "engine 1 k2=3");
  EXPECT_THAT(cache.find(tf32_, graph("a")), Optional(std::string("engine 1 k2=3")));
  EXPECT_EQ(open().find(tf32_, graph("a")), std::nullopt) << "not before it is saved";
  cache.save();
  EXPECT_THAT(open().find(tf32_, graph("a")), Optional(std::string("engine 1 k2=3")));
  EXPECT_EQ(open().find(tf32_, graph("b")), std::nullopt);
}

TEST_F(PlanCaches, KeepDevicesVersionsAndPoliciesApart) {
  PlanCache cache = open();
  cache.remember(tf32_, graph("a"), "engine 1");
  cache.save();
  EXPECT_EQ(open("NVIDIA A100 (compute capability 8.0)").find(tf32_, graph("a")), std::nullopt);
  EXPECT_EQ(open("NVIDIA H200 (compute capability 9.0)", 92000).find(tf32_, graph("a")), std::nullopt);
  Policy other;
  other.true_fp32 = true;
  EXPECT_EQ(open().find(other, graph("a")), std::nullopt);
  other = {};
  other.deterministic = true;
  EXPECT_EQ(open().find(other, graph("a")), std::nullopt);
  other = {};
  other.workspace_limit = 1;
  EXPECT_EQ(open().find(other, graph("a")), std::nullopt);
}

TEST_F(PlanCaches, ForgetWhatTheyCannotRead) {
  const fs::path file = open().file();
  const std::string head =
      R"x({"format":"dtrain plans 1","device":"NVIDIA H200 (compute capability 9.0)","cudnn":91900,)x";
  const std::vector<std::string> texts{
      "",
      R"({"format":)",
      "[1, 2]",
      "\xff\xfe",
      R"({"format":"another program's","plans":{"tf32 workspace 1073741824: a":"x"}})",
      head + R"("plans":7})",
      head + R"("plans":{"tf32 workspace 1073741824: a":7}})"};
  for (const std::string& damaged : texts) {
    write(file, damaged);
    PlanCache cache = open();
    EXPECT_EQ(cache.find(tf32_, graph("a")), std::nullopt) << damaged;
    cache.remember(tf32_, graph("a"), "engine 5");
    cache.save();
    EXPECT_THAT(open().find(tf32_, graph("a")), Optional(std::string("engine 5"))) << damaged;
  }
}

TEST_F(PlanCaches, DoNotFailWhereNothingCanBeWritten) {
  write(folder_ / "plans", "a file where the folder should be");
  PlanCache blocked = open();
  blocked.remember(tf32_, graph("a"), "engine 5");
  EXPECT_NO_THROW(blocked.save());
  EXPECT_THAT(blocked.find(tf32_, graph("a")), Optional(std::string("engine 5")));

  PlanCache nowhere({}, "device", 1);
  nowhere.remember(tf32_, graph("a"), "engine 5");
  EXPECT_NO_THROW(nowhere.save());
}

TEST_F(PlanCaches, OfTwoProcessesAddUp) {
  constexpr int rounds = 20;
  const auto fill = [&](const std::string& who) {
    for (int i = 0; i < rounds; ++i) {
      PlanCache cache = open();
      cache.remember(tf32_, graph(who + std::to_string(i)), who);
      cache.save();
    }
  };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    fill("child");
    ::_exit(0);
  }
  fill("parent");
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const PlanCache both = open();
  for (int i = 0; i < rounds; ++i) {
    EXPECT_THAT(both.find(tf32_, graph("child" + std::to_string(i))), Optional(std::string("child")));
    EXPECT_THAT(both.find(tf32_, graph("parent" + std::to_string(i))), Optional(std::string("parent")));
  }
}

TEST_F(PlanCaches, LieInTheUsersCacheFolder) {
  ::setenv("XDG_CACHE_HOME", "/x/cache", 1);
  EXPECT_EQ(PlanCache::default_directory(), fs::path("/x/cache/dtrain/plans"));
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  ::setenv("HOME", "/x/home", 1);
  EXPECT_EQ(PlanCache::default_directory(), fs::path("/x/home/.cache/dtrain/plans"));
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(PlanCache::default_directory(), fs::path());
}

}  // namespace
}  // namespace dtrain::backend::cuda
