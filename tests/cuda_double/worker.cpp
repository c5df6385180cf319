#include "worker.hpp"

#include <memory>
#include <thread>
#include <utility>

namespace cuda_double {

Worker::Worker() : last_(new Link), first_(last_) {
  std::thread([this] { run(); }).detach();
}

Worker::~Worker() {
  finish();
  ended_.wait(1);
  delete first_;
}

void Worker::push(std::function<void()> work) {
  const std::lock_guard lock(pushing_);
  auto* link = new Link{std::move(work)};
  last_->next = link;
  last_ = link;
  count_.fetch_add(1, std::memory_order_relaxed);
  pushed_.raise();
}

bool Worker::idle() const { return done_.reached(count()); }

void Worker::drain() const { done_.wait(count()); }

void Worker::finish() {
  {
    const std::lock_guard lock(pushing_);
    if (std::exchange(finishing_, true)) return;
  }
  push(nullptr);
}

void Worker::run() {
  for (std::uint32_t number = 1;; ++number) {
    pushed_.wait(number);
    const std::unique_ptr<Link> previous(std::exchange(first_, first_->next));
    const std::function<void()> work = std::move(first_->work);
    if (work) work();
    done_.raise();
    if (!work) break;
  }
  ended_.raise();
}

}  // namespace cuda_double
