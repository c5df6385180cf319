#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/xla/plugin.hpp"
#include "base/units.hpp"

namespace dtrain::backend::xla {

// Something that devices do while the host goes on. Told by the plugin's threads, asked by the replica's.
class Completion {
 public:
  explicit Completion(std::string what) : what_(std::move(what)) {}

  // It is also to wait for this event. Not after the first wait.
  static void watch(const std::shared_ptr<Completion>& completion, const Plugin& plugin, Event event);

  // Run error when the deadline passes, or when it failed.
  void wait(const Deadline& deadline);
  // Without a word when it failed. False: it is not done by then.
  bool settle(const Deadline& deadline);
  // When the last event came, on the steady clock. After wait.
  std::int64_t done_ns();

 private:
  void done(const std::string& error);

  std::string what_;  // "a training step"
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
  int pending_ = 0;
  std::int64_t last_ns_ = 0;
  std::string error_;
};

}  // namespace dtrain::backend::xla
