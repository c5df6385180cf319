#include "cluster/loss_bell.hpp"

namespace dtrain::cluster {

LossBell::LossBell() : thread_([this] { serve(); }) {}

LossBell::~LossBell() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LossBell::ring(const Loss& loss) {
  {
    const std::lock_guard lock(mutex_);
    if (loss_) return;
    loss_ = loss;
  }
  changed_.notify_all();
}

std::optional<Loss> LossBell::loss() const {
  const std::lock_guard lock(mutex_);
  return loss_;
}

Member::Handle LossBell::subscribe(std::function<void(const Loss&)> call) {
  std::list<Call>::iterator place;
  {
    const std::lock_guard lock(mutex_);
    place = calls_.insert(calls_.end(), {std::move(call)});
  }
  changed_.notify_all();
  return {static_cast<void*>(this), [this, place](void*) { unsubscribe(place); }};
}

void LossBell::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto next = [&] { return std::ranges::find(calls_, false, &Call::made); };
    changed_.wait(lock, [&] { return stopping_ || (loss_ && next() != calls_.end()); });
    if (stopping_) return;
    Call& call = *next();
    call.made = true;
    current_ = &call;
    const auto function = call.function;
    const Loss loss = *loss_;
    lock.unlock();
    function(loss);
    lock.lock();
    current_ = nullptr;
    changed_.notify_all();
  }
}

void LossBell::unsubscribe(std::list<Call>::iterator call) {
  std::unique_lock lock(mutex_);
  if (std::this_thread::get_id() != thread_.get_id()) {
    changed_.wait(lock, [&] { return current_ != &*call; });
  }
  calls_.erase(call);
}

}  // namespace dtrain::cluster
