#pragma once

#include <nccl.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/units.hpp"

namespace dtrain::comm {

// Where NCCL keeps the handle of a communicator: it may write there from a thread of its own for as long as
// the communicator is being made.
using NcclPlace = std::shared_ptr<ncclComm_t>;

// How the end of a communicator comes along.
class Ending {
 public:
  bool wait_until(TimePoint until);      // false: it is not over by then
  bool clean() const { return clean_; }  // once it is over: all that was started has been done
  void over(bool clean);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  bool clean_ = false;
};

// Ends communicators on threads of its own. NCCL lets go of a communicator only when every recording with one
// of its collectives is destroyed, even when it aborts, and a replica may hold its recordings for longer than
// its communicator: waiting for that on the rank's own thread would never end.
class Retirement {
 public:
  Retirement() = default;
  Retirement(const Retirement&) = delete;
  Retirement& operator=(const Retirement&) = delete;
  ~Retirement();  // waits for what has not ended, for a few seconds

  // Whatever the communicator is doing ends at once.
  std::shared_ptr<Ending> abort(const NcclPlace& place, int device);
  // Lets it end what was started, together with the other ranks; aborts it when that has not happened by the
  // deadline, or when `hopeless` says that it will not.
  std::shared_ptr<Ending> finish(const NcclPlace& place, int device, const Deadline& deadline,
                                 const std::function<bool()>& hopeless);

 private:
  struct Task {
    std::thread thread;
    std::shared_ptr<Ending> ending;
  };
  template <class Job>
  std::shared_ptr<Ending> start(const Job& job);

  std::mutex mutex_;
  std::vector<Task> tasks_;
};

}  // namespace dtrain::comm
