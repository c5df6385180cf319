#pragma once

#include <functional>
#include <map>

#include "backend/cuda/stream.hpp"

namespace dtrain::backend::cuda {

// Keeps what was enqueued for a kind of micro-step as a CUDA graph, and replays it.
//
// The first time a kind comes it is only run: whatever is made on first use (plans, connections) cannot be
// made while a graph is recorded. The second time it is recorded, and replayed from then on.
class Recorder {
 public:
  // What two micro-steps must share for one to be replayed as the other.
  //
  // Replicas that share a collective must record and replay it together. They do, because what a step is to
  // all of them, its images and its micro-steps, decides how often each of them has seen its own part of it.
  struct Kind {
    int step_images = 0;  // of all replicas
    int images = 0;
    int index = 0;
    bool first = true;
    bool last = true;
    auto operator<=>(const Kind&) const = default;
  };

  explicit Recorder(cudaStream_t stream) : stream_(stream) {}

  void run(const Kind& kind, const std::function<void()>& enqueue);
  bool recording() const { return recording_; }
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    bool seen = false;
    GraphExec graph;
  };

  GraphExec record(const std::function<void()>& enqueue);
  void drop_capture() noexcept;

  cudaStream_t stream_;
  std::map<Kind, Entry> entries_;
  bool recording_ = false;
};

}  // namespace dtrain::backend::cuda
