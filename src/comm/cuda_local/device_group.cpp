#include "comm/cuda_local/device_group.hpp"

#include <fmt/format.h>

#include "base/log.hpp"

namespace dtrain::comm {

using backend::cuda::make_event;
using backend::cuda::OnDevice;

namespace {

void let_use(int device, int other) {
  int possible = 0;
  DTRAIN_CUDA(cudaDeviceCanAccessPeer(&possible, device, other));
  if (possible == 0) {
    throw environment_error(
        fmt::format("GPU {} cannot use the memory of GPU {}, and replicas on both are to share gradients",
                    device, other),
        "put all replicas on one GPU (--gpus 1 --oversubscribe), or one on each and leave --comm out");
  }
  const OnDevice current(device);
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
  } else {
    backend::cuda::check(status, "cudaDeviceEnablePeerAccess(other, 0)");
  }
}

}  // namespace

Lane::Lane(backend::DeviceStream replica)
    : device(replica.device),
      compute(static_cast<cudaStream_t>(replica.stream)),
      stream(backend::cuda::make_stream(backend::cuda::Urgency::urgent)) {
  for (auto& event : ready) event = make_event();
  for (auto& event : done) event = make_event();
}

DeviceGroup::DeviceGroup(std::shared_ptr<Group> host)
    : host_(std::move(host)), lanes_(static_cast<std::size_t>(host_->size())) {}

void DeviceGroup::join(int rank, backend::DeviceStream replica) {
  const std::lock_guard lock(mutex_);
  for (const auto& other : lanes_) {
    if (other == nullptr || other->device == replica.device) continue;
    let_use(replica.device, other->device);
    let_use(other->device, replica.device);
  }
  const OnDevice current(replica.device);
  lanes_[static_cast<std::size_t>(rank)] = std::make_unique<Lane>(replica);
}

void DeviceGroup::drain() noexcept {
  constexpr Seconds patience{5.0};
  const Deadline deadline = Deadline::in(patience);
  const std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) {
    while (lane != nullptr && cudaStreamQuery(lane->stream.get()) == cudaErrorNotReady) {
      if (deadline.passed()) return log_warning(fmt::format("GPU {} does not stop", lane->device));
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  cudaGetLastError();
}

std::shared_ptr<DeviceGroup> DeviceGroup::subgroup(std::uint64_t split, int colour,
                                                   const std::vector<int>& members) {
  const std::shared_ptr<Group> host = host_->subgroup(split, colour, members);
  const std::lock_guard lock(mutex_);
  std::weak_ptr<DeviceGroup>& known = children_[host.get()];
  std::shared_ptr<DeviceGroup> child = known.lock();
  if (child == nullptr) known = child = std::make_shared<DeviceGroup>(host);
  return child;
}

}  // namespace dtrain::comm
