#include "backend/cuda/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.hpp"

namespace dtrain::backend::cuda {

Timeline::Timeline(cudaStream_t stream) : stream_(stream) {
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

std::int64_t Timeline::time_ns(Mark mark) {
  float milliseconds = 0.0F;
  DTRAIN_CUDA(cudaEventElapsedTime(&milliseconds, anchor_.get(), event_of(mark)));
  const std::int64_t ns = anchor_ns_ + std::llround(static_cast<double>(milliseconds) * 1e6);
  latest_ns_ = std::max(latest_ns_, ns);
  return ns;
}

void Timeline::renew(const Deadline& deadline) {
  if (seconds(std::chrono::nanoseconds(now_ns() - anchor_ns_)) > anchor_life.count()) anchor(deadline);
}

// The host may notice an anchor late: the try that it noticed soonest counts. Time never goes back behind
// what was told by the tie before.
void Timeline::anchor(const Deadline& deadline) {
  constexpr int tries = 5;
  std::int64_t shortest = INT64_MAX;
  std::int64_t noticed = 0;
  Event best;
  for (int i = 0; i < tries; ++i) {
    Event event = make_event(Timing::on);
    const std::int64_t before = now_ns();
    DTRAIN_CUDA(cudaEventRecord(event.get(), stream_));
    if (!wait_for(event.get(), deadline)) {
      throw run_error(fmt::format("the GPU has not answered for {:g} s", deadline.allowed().count()),
                      "look at `dtrain info` and the system's log for a failed GPU");
    }
    const std::int64_t after = now_ns();
    if (after - before >= shortest) continue;
    shortest = after - before;
    noticed = after;
    best = std::move(event);
  }
  anchor_ = std::move(best);
  anchor_ns_ = std::max(noticed, latest_ns_);
}

}  // namespace dtrain::backend::cuda
