#include "backend/cuda/input.hpp"

#include <gtest/gtest.h>

#include "double_machine.hpp"
#include "steps.hpp"

namespace dtrain::backend::cuda {
namespace {

class Input : public dtrain::testing::DoubleMachine {
 protected:
  Deadline soon() const { return Deadline::in(Seconds(5.0)); }

  // Waits for the oldest batch and looks at it. Device memory is the host's here.
  kernels::cuda::StepBlock take(InputQueue& queue) {
    kernels::cuda::StepBlock block;
    queue.take(block, stream_.get());
    DTRAIN_CUDA(cudaStreamSynchronize(stream_.get()));
    return block;
  }

  Stream stream_ = make_stream();
  DeviceMemory memory_{0, stream_.get(), {}, 0};
};

TEST_F(Input, ComesInOrderAndTwoAtMost) {
  InputQueue queue(memory_, 4);
  const dtrain::testing::Records records(12);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.push(records.part(0, 4), soon()));
  EXPECT_TRUE(queue.push(records.part(4, 3), soon()));
  EXPECT_FALSE(queue.push(records.part(8, 4), soon()));
  const auto first = take(queue);
  EXPECT_TRUE(std::equal(first.pixels, first.pixels + 4 * 3072, records.pixels.begin()));
  EXPECT_TRUE(std::equal(first.labels, first.labels + 4, records.labels.begin()));
  EXPECT_EQ(first.images, nullptr);
  EXPECT_EQ(first.records, nullptr);
  EXPECT_EQ(first.crops, nullptr);
  queue.done(stream_.get());
  EXPECT_TRUE(queue.push(records.part(8, 4), soon()));
  const auto second = take(queue);
  EXPECT_TRUE(std::equal(second.labels, second.labels + 3, records.labels.begin() + 4));
  const auto third = take(queue);
  EXPECT_TRUE(std::equal(third.pixels, third.pixels + 4 * 3072, records.pixels.begin() + 8 * 3072));
  EXPECT_TRUE(queue.empty());
}

TEST_F(Input, TheBatchMayGoOnceItIsPushed) {
  InputQueue queue(memory_, 2);
  cuda_double::slow("memcpy execution", std::chrono::milliseconds(20));
  std::vector<float> images(2 * 3072, 0.5F);
  std::vector<std::int32_t> labels = {7, 8};
  std::vector<kernels::Crop> crops = {{1, 2, true}, {-3, 0, false}};
  queue.push({.images = images.data(), .labels = labels.data(), .crops = crops.data(), .count = 2}, soon());
  std::ranges::fill(images, -1.0F);
  labels = {0, 0};
  crops = {};
  const auto block = take(queue);
  EXPECT_EQ(block.pixels, nullptr);
  for (int i = 0; i < 2 * 3072; ++i) ASSERT_EQ(block.images[i], 0.5F);
  EXPECT_EQ(block.labels[1], 8);
  EXPECT_EQ(block.crops[0].y, 2);
  EXPECT_TRUE(block.crops[0].flip);
  EXPECT_EQ(block.crops[1].x, -3);
}

TEST_F(Input, RecordNumbersReferToTheDataset) {
  InputQueue queue(memory_, 3);
  const auto pixels = memory_.take_array<std::uint8_t>(10 * 3072);
  const auto labels = memory_.take_array<std::int32_t>(10);
  queue.refer_to(pixels.data(), labels.data());
  const std::vector<std::int32_t> records = {9, 0, 4};
  queue.push({.records = records.data(), .count = 3}, soon());
  const auto block = take(queue);
  EXPECT_EQ(block.pixels, pixels.data());
  EXPECT_EQ(block.labels, labels.data());
  EXPECT_TRUE(std::equal(records.begin(), records.end(), block.records));
}

TEST_F(Input, ForgetsWhatWasNotTaken) {
  InputQueue queue(memory_, 4);
  const dtrain::testing::Records records(8);
  queue.push(records.part(0, 4), soon());
  queue.clear();
  EXPECT_TRUE(queue.empty());
  queue.push(records.part(4, 4), soon());
  const auto block = take(queue);
  EXPECT_TRUE(std::equal(block.labels, block.labels + 4, records.labels.begin() + 4));
}

TEST_F(Input, ACopyThatNeverEndsIsNotWaitedForForever) {
  InputQueue queue(memory_, 1);
  const dtrain::testing::Records records(1);
  cuda_double::slow("memcpy execution", std::chrono::milliseconds(400));
  queue.push(records.part(0, 1), soon());
  queue.clear();
  queue.push(records.part(0, 1), soon());
  queue.clear();
  EXPECT_THROW(queue.push(records.part(0, 1), Deadline::in(Seconds(0.02))), Error);
}

}  // namespace
}  // namespace dtrain::backend::cuda
