#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "backend/replica.hpp"

namespace dtrain::backend::cuda {

// Marks on a stream as steady-clock nanoseconds. A device's clock is read through events; an anchor, an event
// whose host time is known, ties it to the host's. The tie is as good as the host notices the anchor:
// some microseconds, the same for all marks behind one anchor.
class Timeline {
 public:
  explicit Timeline(cudaStream_t stream);

  // An event that later marks use again, after `ring` others.
  Mark mark();
  // An event inside a graph that is being recorded: it keeps its own, and a replay passes it again.
  Mark mark_recorded();
  std::int64_t time_ns(Mark mark);  // once the stream has passed it

  // Renews the tie where it has grown old. The stream must be idle, and no older mark is asked for again.
  void renew(const Deadline& deadline);

 private:
  static constexpr std::size_t ring = 1024;
  static constexpr Seconds anchor_life{1.0};  // event times are floats of milliseconds

  cudaEvent_t event_of(Mark mark) const;
  void anchor(const Deadline& deadline);

  cudaStream_t stream_;
  std::vector<Event> events_;
  std::vector<Event> recorded_;
  std::int64_t marks_ = 0;
  Event anchor_;
  std::int64_t anchor_ns_ = 0;
  std::int64_t latest_ns_ = 0;  // told so far
};

}  // namespace dtrain::backend::cuda
