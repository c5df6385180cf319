#include "train/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "worlds.hpp"

namespace dtrain::train {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

class CheckpointFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder);
    checkpoint.identity = {.model = "cnn",
                           .parameters = 3,
                           .optimizer = "adam",
                           .precision = "fp32",
                           .seed = 18446744073709551615ULL,
                           .global_batch = 64,
                           .shuffle = 10000,
                           .augment = true,
                           .last_batch = "drop",
                           .data_checksum = "abc"};
    checkpoint.state = {.step = 12345678901,
                        .updates = 12345678900,
                        .loss_scale = 0.1,
                        .good_steps = 17,
                        .weights = {1.0F, -0.0F, 3e-41F},
                        .optimizer = {{0.1F, 0.2F, 0.3F}, {4.0F, 5.0F, 6.0F}},
                        .statistics = {7.0F, 8.0F}};
    checkpoint.evaluations = {{1, 0.1, 2.3, 0.25}, {2, 0.3, 1.0 / 3.0, 0.5}};
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string bytes() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void replace(const std::string& content) const { std::ofstream(path, std::ios::binary) << content; }

  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("dtrain-checkpoint-{}", getpid());
  std::filesystem::path path = folder / "run.checkpoint";
  Checkpoint checkpoint;
};

TEST_F(CheckpointFile, ComesBackBitForBit) {
  write_checkpoint(path, checkpoint);
  const Checkpoint back = read_checkpoint(path);
  EXPECT_NO_THROW(require_same_run(path, back.identity, checkpoint.identity));
  EXPECT_EQ(back.state.step, checkpoint.state.step);
  EXPECT_EQ(back.state.updates, checkpoint.state.updates);
  EXPECT_EQ(back.state.loss_scale, checkpoint.state.loss_scale);
  EXPECT_EQ(back.state.good_steps, checkpoint.state.good_steps);
  EXPECT_EQ(back.state.weights, checkpoint.state.weights);
  EXPECT_TRUE(std::signbit(back.state.weights[1]));
  EXPECT_EQ(back.state.optimizer, checkpoint.state.optimizer);
  EXPECT_EQ(back.state.statistics, checkpoint.state.statistics);
  ASSERT_EQ(back.evaluations.size(), 2U);
  EXPECT_EQ(back.evaluations[1].epoch, 2);
  EXPECT_EQ(back.evaluations[1].seconds, 0.3);
  EXPECT_EQ(back.evaluations[1].loss, 1.0 / 3.0);
  EXPECT_EQ(back.evaluations[1].accuracy, 0.5);
}

TEST_F(CheckpointFile, WorksWithoutOptimizerStateAndStatistics) {
  checkpoint.state.optimizer.clear();
  checkpoint.state.statistics.clear();
  checkpoint.evaluations.clear();
  write_checkpoint(path, checkpoint);
  const Checkpoint back = read_checkpoint(path);
  EXPECT_TRUE(back.state.optimizer.empty());
  EXPECT_TRUE(back.state.statistics.empty());
  EXPECT_TRUE(back.evaluations.empty());
  EXPECT_EQ(back.state.weights.size(), 3U);
}

TEST_F(CheckpointFile, CutShortIsADataError) {
  write_checkpoint(path, checkpoint);
  const std::string whole = bytes();
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    replace(whole.substr(0, size));
    const Error error = error_of([&] { read_checkpoint(path); });
    ASSERT_EQ(error.category(), ErrorCategory::data) << size << ": " << error.what();
    ASSERT_THAT(error.what(), HasSubstr(path.string())) << size;
  }
  replace(whole + "x");
  EXPECT_THAT(error_of([&] { read_checkpoint(path); }).what(),
              HasSubstr(fmt::format("{} bytes, but it was written with {}", whole.size() + 1, whole.size())));
}

TEST_F(CheckpointFile, AChangedByteIsADataError) {
  write_checkpoint(path, checkpoint);
  const std::string whole = bytes();
  for (std::size_t at = 0; at < whole.size(); at += 5) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    replace(changed);
    ASSERT_EQ(error_of([&] { read_checkpoint(path); }).category(), ErrorCategory::data) << at;
  }
}

TEST_F(CheckpointFile, SaysWhatItIsInstead) {
  write_checkpoint(path, checkpoint);
  const std::string whole = bytes();
  replace(std::string(100, 'a'));
  EXPECT_THAT(error_of([&] { read_checkpoint(path); }).what(), HasSubstr("not a checkpoint"));
  std::string newer = whole;
  newer[8] = 3;
  replace(newer);
  EXPECT_THAT(error_of([&] { read_checkpoint(path); }).what(),
              HasSubstr("version 3, this program reads version 2"));
  std::string damaged = whole;
  damaged[damaged.size() - 20] = static_cast<char>(damaged[damaged.size() - 20] ^ 1);
  replace(damaged);
  EXPECT_THAT(error_of([&] { read_checkpoint(path); }).what(), HasSubstr("does not match its checksum"));
  std::filesystem::remove(path);
  EXPECT_EQ(error_of([&] { read_checkpoint(path); }).category(), ErrorCategory::data);
}

TEST_F(CheckpointFile, OfAnotherRunNamesEveryDifference) {
  CheckpointIdentity wanted = checkpoint.identity;
  wanted.model = "resnet9";
  wanted.global_batch = 128;
  const Error error = error_of([&] { require_same_run(path, checkpoint.identity, wanted); });
  EXPECT_EQ(error.category(), ErrorCategory::data);
  EXPECT_THAT(error.what(), HasSubstr("model \"resnet9\" here, \"cnn\" in the file"));
  EXPECT_THAT(error.what(), HasSubstr("global_batch 128 here, 64 in the file"));
  EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("seed")));
}

TEST_F(CheckpointFile, UnwritablePlaceIsAnEnvironmentError) {
  EXPECT_EQ(error_of([&] { write_checkpoint("/proc/none/run.checkpoint", checkpoint); }).category(),
            ErrorCategory::environment);
}

}  // namespace
}  // namespace dtrain::train
