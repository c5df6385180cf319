#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/units.hpp"
#include "comm/cuda_local/device_group.hpp"

namespace dtrain::comm {

// One rank's side of how collectives come about, without saying which there are. Ranks meet on the host as
// those of shared memory do: a rank posts its request, and when all have, enqueues its own part; that a part
// is done means here that it is enqueued. A rank's stream then waits until all parts have happened.
//
// Everything throws the group's first failure once there is one, after no device is at this rank's buffers
// any more.
class Meeting {
 public:
  // On the replica's device.
  Meeting(std::shared_ptr<DeviceGroup> group, int rank, backend::DeviceStream replica);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return host().size(); }
  int label(int rank) const { return host().name_of(rank); }  // what messages call a rank
  backend::DeviceStream replica() const { return replica_; }
  DeviceGroup& group() const { return *group_; }
  Group& host() const { return group_->host(); }

  // Runs `work` on the replica's device, if nothing has failed yet; an error of CUDA is the group's.
  template <class Work>
  std::invoke_result_t<const Work&> attempt(const Work& work) {
    check();
    try {
      const backend::cuda::OnDevice current(replica_.device);
      return work();
    } catch (const Error& error) {
      fail(error);
    }
  }

  // The number of the collective. Its data is there after `ready`, or after all that the replica's stream was
  // given (null).
  std::uint64_t start(const Request& request, cudaEvent_t ready);
  std::uint64_t started() const { return started_; }
  // What can be done without waiting.
  void go_on();
  // Until all parts are enqueued, and the replica's stream waits for them.
  void finish(std::uint64_t number, const Deadline& deadline);
  // Until the replica's stream has done what it was given.
  void wait_for_device(const Deadline& deadline);

  // Goes on with collectives meanwhile, because the peer may need them to come here. `ready` looks at what
  // the peer notifies.
  template <class Ready>
  void wait_for_peer(int peer, const Ready& ready, const char* deed, const Deadline& deadline) {
    constexpr auto between_progress = std::chrono::milliseconds(1);
    const auto ready_or_failed = [&] { return ready() || host().failed(); };
    while (!ready()) {
      go_on();
      const TimePoint until = finished_ == started_
                                  ? deadline.at()
                                  : std::min<TimePoint>(deadline.at(), Clock::now() + between_progress);
      const bool came = host().seat(peer).event.wait(ready_or_failed, until, host().patience());
      check();
      if (!came && deadline.passed()) fail_late(peer, deed, deadline);
    }
  }

  void abort(const std::string& reason);
  // Ends the group, in the words of the error if it is the first.
  [[noreturn]] void end(const Error& error);

 private:
  struct Start {
    Request request;
    cudaEvent_t ready;
  };

  [[noreturn]] void fail(const Error& error);
  [[noreturn]] void fail_late(int late, const std::string& deed, const Deadline& deadline);
  void check();
  void leave_buffers();

  void publish_backlog();
  void mark_ready(cudaEvent_t given);
  bool has_come(int rank) const;
  bool all_came();
  void update_finished();
  void do_part();
  void gather_requests();
  void wait_for_slowest(const Deadline& deadline);

  std::shared_ptr<DeviceGroup> group_;
  int rank_;
  backend::DeviceStream replica_;
  backend::cuda::Event fence_;
  std::vector<Request> requests_;  // of collective done_, by rank
  std::vector<float*> buffers_;
  std::deque<Start> backlog_;  // started while all places were taken

  // Numbers of collectives: joined_ <= finished_ <= done_ <= published_ <= started_.
  std::uint64_t started_ = 0;
  std::uint64_t published_ = 0;  // other ranks can see them
  std::uint64_t done_ = 0;       // this rank has enqueued its part
  std::uint64_t finished_ = 0;   // all ranks have enqueued theirs, as far as is known
  std::uint64_t joined_ = 0;     // the replica's stream waits for those below
  int came_ = 0;                 // ranks below it have come to collective done_
  int slowest_ = 0;              // the lowest rank that has not enqueued its part of collective finished_
};

}  // namespace dtrain::comm
