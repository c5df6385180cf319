#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backend/cuda/stream.hpp"
#include "backend/replica.hpp"
#include "comm/nccl/handle.hpp"
#include "comm/nccl/roster.hpp"

namespace dtrain::comm {

// What a rank waits for, for the message when it does not come.
struct Awaited {
  std::string thing;        // "all-reduce"
  std::string deed;         // what the late rank did not do: "reach the all-reduce"
  std::optional<int> peer;  // the one rank that it depends on; without, the roster says who is behind
};

inline Awaited awaited(const std::string& thing) { return {thing, "reach the " + thing, std::nullopt}; }

// One rank's NCCL communicator with its stream, waits and failures, but without any collective. Waits look at
// the device, NCCL and the roster in turns, so that whatever goes wrong first ends them.
//
// Everything throws the group's first failure once there is one, after no collective can touch this rank's
// memory any more. An error of NCCL or CUDA is made the group's failure.
class NcclEndpoint {
 public:
  // On the stream's device. The communicator is to be put into handle().
  NcclEndpoint(int rank, int size, backend::DeviceStream stream, std::shared_ptr<Roster> roster,
               std::shared_ptr<Retirement> retirement);
  ~NcclEndpoint();
  NcclEndpoint(const NcclEndpoint&) = delete;
  NcclEndpoint& operator=(const NcclEndpoint&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int device() const { return device_; }
  cudaStream_t compute() const { return compute_; }
  cudaStream_t stream() const { return stream_.get(); }  // of collectives, ahead of computation
  Roster& roster() { return *roster_; }
  NcclHandle& handle() { return handle_; }

  // Runs `work` on the device, if nothing has failed yet.
  template <class Work>
  auto attempt(const Work& work) {
    check();
    try {
      const backend::cuda::OnDevice current(device_);
      return work();
    } catch (const Error& error) {
      fail(error);
    }
  }
  void check();

  // Orders the collectives' stream after the event, or after all that computation was given so far (null).
  void follow(cudaEvent_t event);

  // Positions, as the roster counts them.
  void meet();
  void start_all_reduce();

  // Until NCCL has connected the ranks. Makes no CUDA call.
  void connect(const Deadline& deadline);
  bool connected() const { return connected_; }

  // Calls `work` with the communicator, and returns when NCCL has enqueued what it asked for: at once, but
  // for the first time between two ranks.
  template <class Work>
  void enqueue(const Work& work, const Awaited& what, const Deadline& deadline) {
    handle_.use(work);
    settle(what, deadline);
  }
  // Until the stream has done what was enqueued so far, or this event has passed.
  void wait_for_stream(const Awaited& what, const Deadline& deadline);
  void wait_for(cudaEvent_t event, const Awaited& what, const Deadline& deadline);

  void abort(const std::string& reason);
  // For a rank that goes although others need it. `when` completes "rank 1 left".
  void abandon(const std::string& when);
  // Ends the communicator in order, once its stream is at rest. One whose collectives were recorded may have
  // to wait for the recordings' end, and goes on in the background.
  void leave(bool recorded, const Deadline& deadline);
  // Nothing of the communicator runs any more when it returns.
  void end() noexcept;

 private:
  [[noreturn]] void fail(const Error& error);
  [[noreturn]] void fail_late(const Awaited& what, const Deadline& deadline);
  void look_for_error(const Awaited& what);
  void settle(const Awaited& what, const Deadline& deadline);
  std::optional<int> late_rank(const Awaited& what) const;
  int name() const { return roster_->name_of(rank_); }

  template <class Done>
  void wait_until(const Done& done, const Awaited& what, const Deadline& deadline);

  void drain(cudaStream_t stream) const noexcept;

  int rank_;
  int size_;
  int device_;
  cudaStream_t compute_;
  std::shared_ptr<Roster> roster_;
  backend::cuda::Stream stream_;
  backend::cuda::Event ready_;
  backend::cuda::Event fence_;
  NcclHandle handle_;
  Position position_{.meetings = 1};
  bool connected_ = false;
};

}  // namespace dtrain::comm
