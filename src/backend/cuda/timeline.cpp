#include "backend/cuda/timeline.hpp"

#include <cmath>

#include "base/error.hpp"

namespace dtrain::backend::cuda {

Timeline::Timeline(cudaStream_t stream) : stream_(stream), anchor_(make_event(Timing::on)) {
  events_.reserve(ring);
  anchor(Deadline::in(Seconds(20.0)));
}

// Recorded marks are negative: -1, -2, ...
Mark Timeline::mark() {
  const auto place = static_cast<std::size_t>(marks_) % ring;
  if (place == events_.size()) events_.push_back(make_event(Timing::on));
  DTRAIN_CUDA(cudaEventRecord(events_[place].get(), stream_));
  return {marks_++};
}

Mark Timeline::mark_recorded() {
  recorded_.push_back(make_event(Timing::on));
  DTRAIN_CUDA(cudaEventRecordWithFlags(recorded_.back().get(), stream_, cudaEventRecordExternal));
  return {-static_cast<std::int64_t>(recorded_.size())};
}

cudaEvent_t Timeline::event_of(Mark mark) const {
  if (mark.value < 0) return recorded_[static_cast<std::size_t>(-mark.value - 1)].get();
  return events_[static_cast<std::size_t>(mark.value) % ring].get();
}

std::int64_t Timeline::time_ns(Mark mark) const {
  float milliseconds = 0.0F;
  DTRAIN_CUDA(cudaEventElapsedTime(&milliseconds, anchor_.get(), event_of(mark)));
  return anchor_ns_ + std::llround(static_cast<double>(milliseconds) * 1e6);
}

void Timeline::renew(const Deadline& deadline) {
  if (seconds(std::chrono::nanoseconds(now_ns() - anchor_ns_)) > anchor_life.count()) anchor(deadline);
}

void Timeline::anchor(const Deadline& deadline) {
  DTRAIN_CUDA(cudaEventRecord(anchor_.get(), stream_));
  if (!wait_for(anchor_.get(), deadline)) {
    throw run_error(fmt::format("the GPU has not answered for {:g} s", deadline.allowed().count()),
                    "look at `dtrain info` and the system's log for a failed GPU");
  }
  anchor_ns_ = now_ns();
}

}  // namespace dtrain::backend::cuda
