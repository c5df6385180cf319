#include "comm/nccl/handle.hpp"

#include "base/log.hpp"

namespace dtrain::comm {

void NcclHandle::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true) || get() == nullptr) return;
  try {
    retirement_->abort(place_, device_);
  } catch (const std::exception& error) {
    log_warning(error.what());
  }
}

std::shared_ptr<Ending> NcclHandle::finish(const Deadline& deadline, const std::function<bool()>& hopeless) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true) || get() == nullptr) return nullptr;
  return retirement_->finish(place_, device_, deadline, hopeless);
}

}  // namespace dtrain::comm
