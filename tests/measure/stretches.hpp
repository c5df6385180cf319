#pragma once

#include <functional>
#include <stdexcept>

#include "measure/protocol.hpp"

namespace dtrain::measure {

inline constexpr std::int64_t ms = 1'000'000;

// Durations of one rank's step, in ns.
struct StepShape {
  std::int64_t input = 1 * ms;
  std::int64_t forward = 2 * ms;
  std::int64_t backward = 3 * ms;
  std::int64_t in_backward = 0;
  std::int64_t communication = 1 * ms;  // from the last arrival on
  std::int64_t update = 1 * ms;
  std::int64_t host = 0;  // before the step begins
  int images = 8;
  bool collective = true;
};

using ShapeOf = std::function<StepShape(std::size_t rank, int step)>;

// The records of ranks that meet in a collective in every step.
inline StretchRecord make_stretch(std::size_t ranks, int steps, const ShapeOf& shape_of,
                                  std::int64_t begin_ns = 1'000 * ms) {
  StretchRecord stretch;
  stretch.begin_ns = begin_ns;
  stretch.ranks.resize(ranks);
  std::vector<std::int64_t> now(ranks, begin_ns);
  for (int step = 0; step < steps; ++step) {
    std::int64_t last = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const StepShape s = shape_of(rank, step);
      StepRecord r;
      r.begin_ns = now[rank] + s.host;
      r.input_ns = s.input;
      r.forward_ns = s.forward;
      r.backward_ns = s.backward;
      r.communication_in_backward_ns = s.in_backward;
      r.update_ns = s.update;
      r.images = s.images;
      now[rank] = r.begin_ns + s.input + s.forward + s.backward + s.in_backward;
      if (s.collective) r.arrival_ns = now[rank];
      last = std::max(last, r.arrival_ns);
      stretch.ranks[rank].push_back(r);
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const StepShape s = shape_of(rank, step);
      StepRecord& r = stretch.ranks[rank].back();
      if (s.collective) now[rank] = last + s.communication;
      r.communicated_ns = now[rank];
      now[rank] += s.update;
      r.end_ns = now[rank];
      stretch.end_ns = std::max(stretch.end_ns, r.end_ns);
    }
  }
  return stretch;
}

}  // namespace dtrain::measure
