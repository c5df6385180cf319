#include "comm/cuda_local/group.hpp"

#include <fmt/format.h>

#include <atomic>
#include <numeric>

#include "base/error.hpp"
#include "comm/cuda_local/communicator.hpp"
#include "comm/group_of_one.hpp"
#include "kernels/cuda/sum_into_all.hpp"

namespace dtrain::comm {

namespace {

class CudaLocalGroup final : public LocalGroup {
 public:
  CudaLocalGroup(int size, const Patience& patience) : joined_(static_cast<std::size_t>(size)) {
    std::vector<int> names(static_cast<std::size_t>(size));
    std::iota(names.begin(), names.end(), 0);
    group_ = std::make_shared<DeviceGroup>(std::make_shared<Group>(std::move(names), patience));
  }

  std::unique_ptr<Communicator> join(int rank, backend::DeviceStream stream) override {
    const int size = static_cast<int>(joined_.size());
    if (rank < 0 || rank >= size) {
      throw std::logic_error(fmt::format("rank {} joins a group of {}", rank, size));
    }
    if (stream.device < 0) throw std::logic_error("a replica that is on no GPU joins a group of GPUs");
    if (joined_[static_cast<std::size_t>(rank)].exchange(true)) {
      throw std::logic_error(fmt::format("rank {} joins twice", rank));
    }
    if (size == 1) return make_group_of_one(0);
    try {
      const backend::cuda::OnDevice current(stream.device);
      return make_cuda_local_communicator(group_, rank, stream);
    } catch (const Error& error) {
      group_->host().fail(error);
      throw;
    }
  }

 private:
  std::vector<std::atomic<bool>> joined_;
  std::shared_ptr<DeviceGroup> group_;
};

}  // namespace

std::unique_ptr<LocalGroup> make_cuda_local_group(const LocalGroupConfig& config) {
  constexpr auto most = static_cast<int>(kernels::cuda::max_summands);
  if (config.size < 1) throw std::logic_error(fmt::format("a group of {} ranks", config.size));
  if (config.size > most) {
    throw usage_error(fmt::format("{} replicas that share GPUs: at most {} can", config.size, most),
                      fmt::format("use --gpus {}", most));
  }
  const Patience patience = config.oversubscribed ? Patience{}
                                                  : Patience{.spin = std::chrono::microseconds(20),
                                                             .yield = std::chrono::milliseconds(2)};
  return std::make_unique<CudaLocalGroup>(config.size, patience);
}

}  // namespace dtrain::comm
