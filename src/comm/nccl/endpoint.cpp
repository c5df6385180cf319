#include "comm/nccl/endpoint.hpp"

#include <fmt/format.h>

#include <thread>

#include "base/log.hpp"

namespace dtrain::comm {

using backend::cuda::make_event;
using backend::cuda::make_stream;
using backend::cuda::OnDevice;

namespace {

// Looks without pause at first, because most steps are short, and offers the core to others meanwhile.
class Pace {
 public:
  void rest() {
    if (++looks_ < eager_looks) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  static constexpr int eager_looks = 20'000;
  int looks_ = 0;
};

}  // namespace

NcclEndpoint::NcclEndpoint(int rank, int size, backend::DeviceStream stream, std::shared_ptr<Roster> roster,
                           std::shared_ptr<Retirement> retirement)
    : rank_(rank),
      size_(size),
      device_(stream.device),
      compute_(static_cast<cudaStream_t>(stream.stream)),
      roster_(std::move(roster)),
      stream_(make_stream(backend::cuda::Urgency::urgent)),
      ready_(make_event()),
      fence_(make_event()),
      handle_(device_, std::move(retirement)) {
  roster_->announce(rank_, position_);
}

NcclEndpoint::~NcclEndpoint() { end(); }

void NcclEndpoint::check() {
  if (!roster_->failed()) return;
  end();
  roster_->throw_failure();
}

void NcclEndpoint::follow(cudaEvent_t event) {
  if (event == nullptr) {
    event = ready_.get();
    DTRAIN_CUDA(cudaEventRecord(event, compute_));
  }
  DTRAIN_CUDA(cudaStreamWaitEvent(stream(), event, cudaEventWaitDefault));
}

void NcclEndpoint::meet() {
  position_ = {position_.meetings + 1, 0};
  roster_->announce(rank_, position_);
}

void NcclEndpoint::start_all_reduce() {
  ++position_.started;
  roster_->announce(rank_, position_);
}

void NcclEndpoint::connect(const Deadline& deadline) {
  if (connected_) return;
  wait_until([&] { return handle_.state() == ncclSuccess; }, {"connection of all ranks", "join", {}},
             deadline);
  connected_ = true;
}

void NcclEndpoint::settle(const Awaited& what, const Deadline& deadline) {
  wait_until([&] { return handle_.state() != ncclInProgress; }, what, deadline);
  look_for_error(what);
}

void NcclEndpoint::wait_for_stream(const Awaited& what, const Deadline& deadline) {
  DTRAIN_CUDA(cudaEventRecord(fence_.get(), stream_.get()));
  wait_for(fence_.get(), what, deadline);
}

void NcclEndpoint::wait_for(cudaEvent_t event, const Awaited& what, const Deadline& deadline) {
  const auto passed = [&] {
    const cudaError_t status = cudaEventQuery(event);
    if (status != cudaErrorNotReady) backend::cuda::check(status, "cudaEventQuery(event)");
    cudaGetLastError();  // not ready is no error for a later call to find
    return status == cudaSuccess;
  };
  wait_until(passed, what, deadline);
}

template <class Done>
void NcclEndpoint::wait_until(const Done& done, const Awaited& what, const Deadline& deadline) {
  for (Pace pace; !done(); pace.rest()) {
    check();
    look_for_error(what);
    if (deadline.passed()) fail_late(what, deadline);
  }
  check();  // an abort ends what was waited for as well
}

void NcclEndpoint::look_for_error(const Awaited& what) {
  const ncclResult_t state = handle_.state();
  if (state == ncclSuccess || state == ncclInProgress) return;
  const char* detail = ncclGetLastError(nullptr);
  std::string text = fmt::format("NCCL failed in the {}: {} ({}", what.thing, ncclGetErrorString(state),
                                 static_cast<int>(state));
  if (detail != nullptr && detail[0] != '\0') text += fmt::format(", {}", detail);
  text += ")";
  if (const auto late = late_rank(what)) {
    text += fmt::format("; rank {} did not {}", roster_->name_of(*late), what.deed);
  }
  throw run_error(text, "NCCL_DEBUG=WARN in the environment makes NCCL say more");
}

std::optional<int> NcclEndpoint::late_rank(const Awaited& what) const {
  return what.peer ? what.peer : roster_->first_behind(position_);
}

void NcclEndpoint::fail_late(const Awaited& what, const Deadline& deadline) {
  const double allowed = deadline.allowed().count();
  if (const auto late = late_rank(what)) {
    const int culprit = roster_->name_of(*late);
    roster_->fail(run_error(
        fmt::format("rank {} did not {} within {:g} s (rank {} waited)", culprit, what.deed, allowed, name()),
        fmt::format("see what rank {} was doing; if it was only slow, raise --timeout", culprit)));
  } else {
    roster_->fail(run_error(
        fmt::format("the {} did not end within {:g} s (rank {} waited; no rank is known to be late)",
                    what.thing, allowed, name()),
        "NCCL_DEBUG=INFO in the environment shows what NCCL does; if it was only slow, raise --timeout"));
  }
  check();
  std::abort();  // check has thrown
}

void NcclEndpoint::fail(const Error& error) {
  if (!roster_->failed()) {
    roster_->fail(Error(error.category(), fmt::format("rank {}: {}", name(), error.what()), error.advice()));
  }
  check();
  std::abort();  // check has thrown
}

void NcclEndpoint::abort(const std::string& reason) {
  roster_->fail(run_error(fmt::format("rank {} aborted: {}", name(), reason),
                          fmt::format("look for the cause at rank {}", name())));
  end();
}

void NcclEndpoint::abandon(const std::string& when) {
  roster_->fail(
      run_error(fmt::format("rank {} left {}", name(), when), "its own error, if it reported one, says why"));
}

void NcclEndpoint::leave(bool recorded, const Deadline& deadline) {
  const auto ending = handle_.finish(deadline, [roster = roster_] { return roster->failed(); });
  if (recorded || ending == nullptr) return;
  const bool over = ending->wait_until(deadline.at());
  if (over && ending->clean()) return;
  roster_->fail(run_error(fmt::format("rank {} could not end its NCCL communicator in order", name()),
                          "NCCL_DEBUG=WARN in the environment makes NCCL say more"));
}

void NcclEndpoint::end() noexcept {
  handle_.abort();
  drain(stream_.get());
  drain(compute_);
}

// What runs ends by itself now that NCCL has been told to give up. A stream that is being recorded has not
// started anything.
void NcclEndpoint::drain(cudaStream_t stream) const noexcept {
  constexpr Seconds patience{5.0};
  const Deadline deadline = Deadline::in(patience);
  cudaStreamCaptureStatus recording = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &recording) != cudaSuccess) return;
  if (recording != cudaStreamCaptureStatusNone) return;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    if (deadline.passed()) return log_warning(fmt::format("GPU {} does not stop", device_));
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  cudaGetLastError();
}

}  // namespace dtrain::comm
