#pragma once

#include <deque>
#include <functional>
#include <mutex>

namespace dtrain::cluster {

// Messages on their way into a stream that writes one at a time. Never waits.
template <class Message>
class Outbox {
 public:
  // `write` starts to write a message that stays until written(); `finish` ends the stream's writing.
  Outbox(std::function<void(const Message&)> write, std::function<void()> finish)
      : write_(std::move(write)), finish_(std::move(finish)) {}

  // Dropped when the stream ends.
  void send(Message message) {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    messages_.push_back(std::move(message));
    if (messages_.size() == 1) write_(messages_.front());
  }

  void written(bool fine) {
    const std::lock_guard lock(mutex_);
    messages_.pop_front();
    if (!fine) {
      messages_.clear();
      closing_ = true;
    }
    if (!messages_.empty()) return write_(messages_.front());
    if (closing_) finish_();
  }

  // Ends the stream's writing when what is here is written.
  void close() {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    closing_ = true;
    if (messages_.empty()) finish_();
  }

  bool idle() const {
    const std::lock_guard lock(mutex_);
    return messages_.empty();
  }

 private:
  const std::function<void(const Message&)> write_;
  const std::function<void()> finish_;
  mutable std::mutex mutex_;
  std::deque<Message> messages_;  // the first is being written
  bool closing_ = false;
};

}  // namespace dtrain::cluster
