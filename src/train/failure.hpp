#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace dtrain::train {

// Raised by a rank that noticed a non-finite value. `own` says that it was this rank's: the others only
// received it.
class NotFinite : public Error {
 public:
  NotFinite(const std::string& what, std::string advice, bool own)
      : Error(ErrorCategory::run, what, std::move(advice)), own_(own) {}
  bool own() const { return own_; }

 private:
  bool own_;
};

// Ends a rank because another one failed; never the cause.
struct Abandoned {};

// Why a job ended early, as a plain value: it crosses threads.
struct Failure {
  int rank = 0;
  bool interrupted = false;
  bool job_ended = false;  // by another process
  bool echo = false;       // of what another rank did
  bool culprit = false;    // known to be the cause, whoever spoke first
  ErrorCategory category = ErrorCategory::run;
  std::string what{};
  std::string advice{};

  [[noreturn]] void raise() const;
};

// To be called in a catch block: the exception in flight, with rank and step (from 1; 0 = before any) put in
// front.
Failure failure_in_flight(int rank, std::int64_t step);

// The failures of all ranks in one job, reduced to their cause: a known culprit, else whoever was first.
// Those that follow are only the echo of the abort.
class FailureLog {
 public:
  bool add(const Failure& failure);  // whether it was the first
  void clear();
  bool any() const { return any_.load(std::memory_order_acquire); }
  std::optional<Failure> cause() const;

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> any_{false};
  std::optional<Failure> cause_;
};

}  // namespace dtrain::train
