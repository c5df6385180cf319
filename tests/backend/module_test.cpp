#include "backend/cuda_module.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.hpp"

namespace {

using namespace dtrain;
using testing::HasSubstr;
namespace fs = std::filesystem;

fs::path fake(const std::string& make) { return fs::path(FAKE_MODULES) / ("libfake_" + make + ".so"); }

TEST(Module, IsTakenFromTheFirstPlaceThatHasIt) {
  const auto module =
      backend::load_cuda_module({"/nowhere/libdtrain_cuda.so", fake("right"), fake("other_abi")});
  ASSERT_NE(module.table, nullptr) << module.problem;
  EXPECT_EQ(module.file, fake("right"));
  EXPECT_EQ(module.table->make_backend()->estimate_memory({}), 7U);
  EXPECT_EQ(module.table->find_communicator("nccl"), nullptr);
}

// Both sides have code of their own for these types, and the module's symbols are hidden.
TEST(Module, ItsErrorsAreCaughtByType) {
  const auto backend = backend::load_cuda_module({fake("right")}).table->make_backend();
  try {
    backend->devices();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::environment);
    EXPECT_STREQ(error.what(), "no GPU in here");
    EXPECT_EQ(error.advice(), "buy one");
  }
  EXPECT_THROW(backend->libraries(), std::bad_alloc);
  EXPECT_THROW(backend->make_replica({}), Interrupted);
}

TEST(Module, SpeaksThroughTheProgramsLog) {
  static std::vector<std::string> said;
  said.clear();
  redirect_log([](LogLevel level, std::string_view text) {
    said.push_back((level == LogLevel::warning ? "warning " : "other ") + std::string(text));
  });
  backend::load_cuda_module({fake("right")}).table->make_backend()->check_precision({});
  EXPECT_THAT(said, testing::ElementsAre("warning said in the module"));
}

struct Refusal {
  const char* make;
  std::vector<std::string> words;
};

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, SaysWhy) {
  const auto module = backend::load_cuda_module({fake(GetParam().make)});
  EXPECT_EQ(module.table, nullptr);
  for (const auto& word : GetParam().words) EXPECT_THAT(module.problem, HasSubstr(word));
  EXPECT_FALSE(module.advice.empty());
}

INSTANTIATE_TEST_SUITE_P(Makes, Refused,
                         testing::Values(Refusal{"other_abi", {"version 1001", "version 1"}},
                                         Refusal{"other_sources", {"other sources"}},
                                         Refusal{"other_entry", {"no CUDA module", "dtrain_cuda_module"}},
                                         Refusal{"missing", {"has no CUDA module"}}),
                         [](const auto& refusal) { return std::string(refusal.param.make); });

TEST(Module, KeepsTheLinkersOwnWords) {
  const fs::path text = fs::path(testing::TempDir()) / "libdtrain_cuda.so";
  std::ofstream(text) << "this is no library";
  const auto module = backend::load_cuda_module({text});
  EXPECT_EQ(module.table, nullptr);
  EXPECT_THAT(module.problem, HasSubstr("cannot be loaded"));
  EXPECT_THAT(module.problem, HasSubstr(text.string()));
}

TEST(Module, IsNotBesideThisTest) {
  EXPECT_EQ(backend::cuda_module().table, nullptr);
  EXPECT_EQ(&backend::cuda_module(), &backend::cuda_module());
  EXPECT_THROW(backend::require_cuda_module(), Error);
}

}  // namespace
