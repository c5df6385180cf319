#pragma once

#include <functional>
#include <mutex>

#include "signal.hpp"

namespace cuda_double {

// A thread that runs what is pushed, in order. Pushing orders the pusher before the work; only drain() orders
// the work before anything on the waiting thread.
class Worker {
 public:
  Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();  // finishes, and waits for the thread

  void push(std::function<void()> work);
  bool idle() const;   // all that was pushed has run
  void drain() const;  // waits for all that was pushed until now
  void finish();       // ends the thread after what was pushed; returns at once
  void wait_for_end() const { ended_.wait(1); }

 private:
  struct Link {
    std::function<void()> work;
    Link* next = nullptr;
  };
  void run();
  std::uint32_t count() const { return count_.load(std::memory_order_relaxed); }

  std::mutex pushing_;  // among pushers
  Link* last_;          // the pushers'
  Link* first_;         // the thread's: what it has run last
  std::atomic<std::uint32_t> count_{0};
  bool finishing_ = false;
  Signal pushed_;
  Signal done_;
  Signal ended_;
};

}  // namespace cuda_double
