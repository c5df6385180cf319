#include "backend/cuda/timeline.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "backend/cuda/recorder.hpp"
#include "base/error.hpp"
#include "double_machine.hpp"

namespace dtrain::backend::cuda {
namespace {

class Timelines : public dtrain::testing::DoubleMachine {
 protected:
  void wait() { DTRAIN_CUDA(cudaStreamSynchronize(stream_.get())); }

  Stream stream_ = make_stream();
};

TEST_F(Timelines, MarksAreOnTheHostsClock) {
  Timeline timeline(stream_.get());
  const std::int64_t before = now_ns();
  const Mark first = timeline.mark();
  wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const std::int64_t between = now_ns();
  const Mark second = timeline.mark();
  wait();
  const std::int64_t after = now_ns();
  constexpr std::int64_t tie = 5'000'000;
  EXPECT_GT(timeline.time_ns(first), before - tie);
  EXPECT_LT(timeline.time_ns(first), between - 20'000'000);
  EXPECT_GT(timeline.time_ns(second), between - tie);
  EXPECT_LT(timeline.time_ns(second), after + tie);
  EXPECT_GT(timeline.time_ns(second) - timeline.time_ns(first), 29'000'000);
}

TEST_F(Timelines, AnAnchorThatDoesNotComeIsAnError) {
  Timeline timeline(stream_.get());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  cuda_double::slow("event record execution", std::chrono::milliseconds(200));
  EXPECT_THROW(timeline.renew(Deadline::in(Seconds(0.02))), Error);
}

TEST_F(Timelines, EventsAreUsedAgain) {
  Timeline timeline(stream_.get());
  const int before = cuda_double::calls()["cudaEventCreateWithFlags"];
  for (int i = 0; i < 5000; ++i) timeline.mark();
  wait();
  EXPECT_EQ(cuda_double::calls()["cudaEventCreateWithFlags"] - before, 1024);
}

TEST_F(Timelines, ARecordedMarkIsPassedByEveryReplay) {
  Timeline timeline(stream_.get());
  Recorder recorder(stream_.get());
  Mark mark;
  std::int64_t last = 0;
  for (int i = 0; i < 4; ++i) {
    recorder.run({}, [&] { mark = recorder.recording() ? timeline.mark_recorded() : timeline.mark(); });
    wait();
    const std::int64_t now = timeline.time_ns(mark);
    EXPECT_GT(now, last) << i;
    last = now;
  }
}

TEST_F(Timelines, WaitingLeavesNoErrorBehind) {
  const Event event = make_event();
  cuda_double::slow("event record execution", std::chrono::milliseconds(30));
  DTRAIN_CUDA(cudaEventRecord(event.get(), stream_.get()));
  EXPECT_FALSE(wait_for(event.get(), Deadline::in(Seconds(0.0))));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_TRUE(wait_for(event.get(), Deadline::in(Seconds(5.0))));
}

TEST_F(Timelines, AnErrorWhileRecordingLeavesTheStreamUsable) {
  Recorder recorder(stream_.get());
  recorder.run({}, [] {});
  EXPECT_THROW(recorder.run({}, []() -> void { throw run_error("no", ""); }), Error);
  EXPECT_FALSE(recorder.recording());
  int runs = 0;
  recorder.run({}, [&] { ++runs; });
  wait();
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace dtrain::backend::cuda
