#include "comm/nccl/retirement.hpp"

#include <atomic>
#include <system_error>

#include "backend/cuda/check.hpp"
#include "base/log.hpp"

namespace dtrain::comm {

namespace {

constexpr auto patience = std::chrono::seconds(5);

ncclComm_t communicator_at(const NcclPlace& place) {
  return std::atomic_ref(*place).load(std::memory_order_acquire);
}

// Whether all that was started has been done.
bool finalize(ncclComm_t communicator, const Deadline& deadline, const std::function<bool()>& hopeless) {
  ncclResult_t state = ncclCommFinalize(communicator);
  while (state == ncclInProgress && !deadline.passed() && !hopeless()) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    const ncclResult_t asked = ncclCommGetAsyncError(communicator, &state);
    if (asked != ncclSuccess) state = asked;
  }
  DTRAIN_CUDA_QUIETLY(state);
  return state == ncclSuccess;
}

}  // namespace

bool Ending::wait_until(TimePoint until) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, until, [&] { return over_; });
}

void Ending::over(bool clean) {
  const std::lock_guard lock(mutex_);
  over_ = true;
  clean_ = clean;
  changed_.notify_all();
}

Retirement::~Retirement() {
  for (Task& task : tasks_) {
    if (task.ending->wait_until(Clock::now() + patience)) {
      task.thread.join();
    } else {
      log_warning("NCCL does not let go of a communicator; is there a recording of its collectives left?");
      task.thread.detach();
    }
  }
}

std::shared_ptr<Ending> Retirement::abort(const NcclPlace& place, int device) {
  return start([place, device] {
    DTRAIN_CUDA_QUIETLY(cudaSetDevice(device));
    DTRAIN_CUDA_QUIETLY(ncclCommAbort(communicator_at(place)));
    return false;
  });
}

std::shared_ptr<Ending> Retirement::finish(const NcclPlace& place, int device, const Deadline& deadline,
                                           const std::function<bool()>& hopeless) {
  return start([place, device, deadline, hopeless] {
    DTRAIN_CUDA_QUIETLY(cudaSetDevice(device));
    const ncclComm_t communicator = communicator_at(place);
    const bool clean = finalize(communicator, deadline, hopeless);
    if (clean) {
      DTRAIN_CUDA_QUIETLY(ncclCommDestroy(communicator));
    } else {
      DTRAIN_CUDA_QUIETLY(ncclCommAbort(communicator));
    }
    return clean;
  });
}

template <class Job>
std::shared_ptr<Ending> Retirement::start(const Job& job) {
  auto ending = std::make_shared<Ending>();
  const auto run = [job, ending] { ending->over(job()); };
  const std::lock_guard lock(mutex_);
  for (Task& task : tasks_) {
    if (task.ending->wait_until(TimePoint::min())) task.thread.join();
  }
  std::erase_if(tasks_, [](const Task& task) { return !task.thread.joinable(); });
  tasks_.reserve(tasks_.size() + 1);
  try {
    tasks_.push_back({std::thread(run), ending});
  } catch (const std::system_error&) {
    run();  // no thread to be had
  }
  return ending;
}

}  // namespace dtrain::comm
