#include "train/crew.hpp"

#include <system_error>

#include "base/error.hpp"

namespace dtrain::train {

Crew::Crew(int size) {
  threads_.reserve(static_cast<std::size_t>(size));
  try {
    for (int index = 0; index < size; ++index) threads_.emplace_back([this, index] { live(index); });
  } catch (const std::system_error& error) {
    const std::size_t started = threads_.size();
    dismiss();
    throw environment_error(
        fmt::format("the system gave {} of {} threads for replicas: {}", started, size, error.what()),
        "ask for fewer replicas, or raise the limit of processes (ulimit -u)");
  }
}

Crew::~Crew() { dismiss(); }

void Crew::run(const Job& job) {
  std::unique_lock lock(mutex_);
  job_ = &job;
  at_work_ = static_cast<int>(threads_.size());
  ++round_;
  wake_.notify_all();
  done_.wait(lock, [this] { return at_work_ == 0; });
  job_ = nullptr;
}

void Crew::live(int index) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return dismissed_ || round_ != seen; });
    if (dismissed_) return;
    seen = round_;
    const Job& job = *job_;
    lock.unlock();
    job(index);
    lock.lock();
    if (--at_work_ == 0) done_.notify_one();
  }
}

void Crew::dismiss() {
  {
    const std::lock_guard lock(mutex_);
    dismissed_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace dtrain::train
