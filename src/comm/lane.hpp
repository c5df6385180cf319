#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "comm/shared_memory/event.hpp"

namespace dtrain::comm {

// An error that several threads throw, each a copy of its own.
class Failure {
 public:
  // Of the exception that is being handled.
  static Failure caught();
  explicit Failure(const Error& error) : error_(error) {}
  [[noreturn]] void raise() const;
  const char* what() const { return error_.what(); }

 private:
  Error error_;
  bool job_ended_ = false;
};

// A thread that does jobs in the order in which they are handed in. The first one that throws is the last:
// what it threw is thrown by every later call.
class Lane {
 public:
  // Jobs of a lane count up from 0.
  using Number = std::uint64_t;

  // `patience` is that of those who wait for jobs; the lane itself sleeps while it has none.
  explicit Lane(const Patience& patience);
  // The job that is being done is waited for; others are dropped.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Never waits for a job.
  Number enqueue(std::function<void()> job);
  // Until this job and all before it are done. False: not by the deadline.
  bool wait(Number job, const Deadline& deadline);
  bool done(Number job) const { return done_.load() > job; }
  // Ends the lane as a job that throws does, unless it has ended: whoever waits is told at once.
  void fail(const Failure& failure);
  bool failed() const { return failed_.load(); }
  // Throws the first failure, if there was one, when the lane is at no job any more.
  void check() {
    if (failed()) raise();
  }

 private:
  [[noreturn]] void raise();
  void work();
  std::optional<std::function<void()>> next();

  const Patience patience_;
  std::atomic<Number> enqueued_{0};
  std::atomic<Number> done_{0};
  std::atomic<bool> busy_{false};
  std::atomic<bool> failed_{false};
  std::optional<Failure> failure_;  // does not change once failed_ is set
  std::atomic<bool> leaving_{false};
  Event came_;      // notified after each job that comes, and the end
  Event finished_;  // and after each that is done, or fails
  std::mutex mutex_;
  std::deque<std::function<void()>> jobs_;
  std::thread thread_;
};

}  // namespace dtrain::comm
