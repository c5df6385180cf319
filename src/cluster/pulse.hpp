#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/units.hpp"

namespace dtrain::cluster {

// How often members and chief hear of each other.
inline Seconds pulse_interval(Seconds timeout) { return std::min(Seconds(0.5), timeout / 4.0); }

// Calls `beat` at intervals from a thread of its own, until it goes. `late`: this process did not run for a
// while (it was stopped, or the machine was), so that others' silence says nothing.
class Pulse {
 public:
  Pulse(Seconds interval, std::function<void(bool late)> beat);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  void run(Seconds interval, const std::function<void(bool late)>& beat);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace dtrain::cluster
