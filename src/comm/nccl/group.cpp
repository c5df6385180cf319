#include "comm/nccl/group.hpp"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "comm/nccl/communicator.hpp"

namespace dtrain::comm {

namespace {

class NcclGroup final : public LocalGroup {
 public:
  explicit NcclGroup(int size)
      : id_(make_nccl_id()),
        roster_(make_shared_roster(size)),
        retirement_(std::make_shared<Retirement>()),
        devices_(static_cast<std::size_t>(size)) {}

  std::unique_ptr<Communicator> join(int rank, backend::DeviceStream stream) override {
    const int size = static_cast<int>(devices_.size());
    if (rank < 0 || rank >= size)
      throw std::logic_error(fmt::format("rank {} joins a group of {}", rank, size));
    if (roster_->failed()) roster_->throw_failure();
    try {
      take_device(rank, stream.device);
      return make_nccl_communicator(id_, rank, size, stream, {.roster = roster_, .retirement = retirement_});
    } catch (const Error& error) {
      roster_->fail(error);
      throw;
    }
  }

 private:
  void take_device(int rank, int device) {
    const std::lock_guard lock(mutex_);
    auto& mine = devices_[static_cast<std::size_t>(rank)];
    if (mine) throw std::logic_error(fmt::format("rank {} joins twice", rank));
    for (std::size_t other = 0; other < devices_.size(); ++other) {
      if (devices_[other] != device) continue;
      const auto [low, high] = std::minmax({rank, static_cast<int>(other)});
      throw environment_error(
          fmt::format("ranks {} and {} are both on GPU {}, and NCCL takes one rank a GPU", low, high, device),
          "give every replica a GPU of its own; with --oversubscribe replicas share one, and communicate "
          "within the process");
    }
    mine = device;
  }

  NcclId id_;
  std::shared_ptr<Roster> roster_;
  std::shared_ptr<Retirement> retirement_;
  std::mutex mutex_;
  std::vector<std::optional<int>> devices_;  // by rank, once it has joined
};

}  // namespace

std::unique_ptr<LocalGroup> make_nccl_group(const LocalGroupConfig& config) {
  if (config.size < 1) throw std::logic_error(fmt::format("a group of {} ranks", config.size));
  return std::make_unique<NcclGroup>(config.size);
}

}  // namespace dtrain::comm
