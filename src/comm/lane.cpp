#include "comm/lane.hpp"

namespace dtrain::comm {

Failure Failure::caught() {
  try {
    throw;
  } catch (const JobEnded& error) {
    Failure failure(error);
    failure.job_ended_ = true;
    return failure;
  } catch (const Error& error) {
    return Failure(error);
  } catch (const std::exception& error) {
    return Failure(run_error(error.what(), "this is a fault in the program: please report it"));
  }
}

// With a text of its own: the counted one inside an exception would be shared between threads.
void Failure::raise() const {
  if (job_ended_) throw JobEnded(std::string(error_.what()), error_.advice());
  throw Error(error_.category(), std::string(error_.what()), error_.advice());
}

Lane::Lane(const Patience& patience) : patience_(patience), thread_([this] { work(); }) {}

Lane::~Lane() {
  leaving_ = true;
  came_.notify();
  thread_.join();
}

Lane::Number Lane::enqueue(std::function<void()> job) {
  check();
  Number number = 0;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    number = enqueued_.fetch_add(1);
  }
  came_.notify();
  return number;
}

bool Lane::wait(Number job, const Deadline& deadline) {
  const auto ready = [&] { return done(job) || failed(); };
  const bool came = finished_.wait(ready, deadline.at(), patience_);
  if (done(job)) return true;
  check();
  return came;
}

void Lane::fail(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = failure;
    failed_ = true;
  }
  came_.wake();
  finished_.wake();
}

void Lane::raise() {
  const auto idle = [this] { return !busy_.load() || std::this_thread::get_id() == thread_.get_id(); };
  while (!finished_.wait(idle, Clock::now() + std::chrono::hours(1), patience_)) {
  }
  failure_->raise();
}

std::optional<std::function<void()>> Lane::next() {
  const auto ready = [this] { return enqueued_.load() > done_.load() || leaving_.load() || failed(); };
  constexpr auto long_time = std::chrono::hours(1);
  while (!came_.wait(ready, Clock::now() + long_time, Patience{})) {
  }
  busy_ = true;
  if (leaving_ || failed()) {
    busy_ = false;
    finished_.notify();
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  auto job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

void Lane::work() {
  while (const auto job = next()) {
    try {
      (*job)();
      done_.fetch_add(1);
    } catch (...) {
      fail(Failure::caught());
    }
    busy_ = false;
    finished_.notify();
  }
}

}  // namespace dtrain::comm
