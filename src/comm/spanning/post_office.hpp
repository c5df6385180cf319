#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace dtrain::comm {

// Messages from one number to another, in order, between threads. Nobody waits to send.
class PostOffice {
 public:
  void send(std::span<const float> data, int from, int to) {
    const std::lock_guard lock(mutex_);
    boxes_[{from, to}].emplace_back(data.begin(), data.end());
    changed_.notify_all();
  }

  // Run error at the deadline, or when the office has closed.
  std::vector<float> receive(int from, int to, const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[{from, to}];
    changed_.wait_until(lock, deadline.at(), [&] { return !box.empty() || closed_; });
    if (!box.empty()) {
      std::vector<float> message = std::move(box.front());
      box.pop_front();
      return message;
    }
    throw run_error(closed_ ? *closed_
                            : fmt::format("rank {} did not send a message within {:g} s (rank {} waited)",
                                          from, deadline.allowed().count(), to),
                    fmt::format("see what rank {} was doing", from));
  }

  void close(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!closed_) closed_ = reason;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::vector<float>>> boxes_;
  std::optional<std::string> closed_;
};

}  // namespace dtrain::comm
