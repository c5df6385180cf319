#include "comm/spanning_group.hpp"

#include <numeric>

#include "comm/shared_memory/communicator.hpp"
#include "comm/spanning/communicator.hpp"
#include "comm/spanning/local_exchange.hpp"

namespace dtrain::comm {

namespace {

std::vector<int> counted(std::size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

class SpanningGroup final : public LocalGroup {
 public:
  SpanningGroup(std::unique_ptr<Exchange> exchange, const SpanningConfig& config)
      : core_(std::make_shared<SpanningCore>(std::move(exchange), config, counted(config.process_of.size()))),
        joined_(static_cast<std::size_t>(core_->local_ranks())) {
    if (core_->local_ranks() == 1) return;
    neighbours_ =
        make_shared_memory_group({.size = core_->local_ranks(), .oversubscribed = config.oversubscribed});
  }

  std::unique_ptr<Communicator> join(int rank, backend::DeviceStream) override {
    if (rank < 0 || rank >= core_->size() || !core_->is_local(rank)) {
      throw std::logic_error(fmt::format("rank {} is not one of this process", rank));
    }
    const int local = rank - core_->first_rank();
    if (joined_[static_cast<std::size_t>(local)].exchange(true)) {
      throw std::logic_error(fmt::format("rank {} joins twice", rank));
    }
    return make_spanning_communicator(core_, rank, neighbours_ ? neighbours_->join(local) : nullptr);
  }

 private:
  std::shared_ptr<SpanningCore> core_;
  std::vector<std::atomic<bool>> joined_;
  std::unique_ptr<LocalGroup> neighbours_;
};

// Every rank is a process to the others, with a lane of its own.
class CompressedLocalGroup final : public LocalGroup {
 public:
  CompressedLocalGroup(const LocalGroupConfig& config, const std::string& compress, std::uint64_t seed)
      : exchanges_(std::make_shared<LocalExchanges>(config.oversubscribed)),
        config_{.process_of = counted(static_cast<std::size_t>(config.size)),
                .compress = compress,
                .seed = seed,
                .oversubscribed = config.oversubscribed,
                .timeout = std::chrono::hours(24),  // ranks wait with deadlines of their own
                .on_start = {}} {}

  std::unique_ptr<Communicator> join(int rank, backend::DeviceStream) override {
    auto exchange = exchanges_->join("ranks", static_cast<int>(config_.process_of.size()), rank);
    auto core = std::make_shared<SpanningCore>(std::move(exchange), config_, config_.process_of);
    return make_spanning_communicator(std::move(core), rank, nullptr);
  }

 private:
  std::shared_ptr<LocalExchanges> exchanges_;
  SpanningConfig config_;
};

}  // namespace

std::unique_ptr<LocalGroup> make_spanning_group(std::unique_ptr<Exchange> exchange,
                                                const SpanningConfig& config) {
  return std::make_unique<SpanningGroup>(std::move(exchange), config);
}

std::unique_ptr<LocalGroup> make_compressed_local_group(const LocalGroupConfig& config,
                                                        const std::string& compress, std::uint64_t seed) {
  return std::make_unique<CompressedLocalGroup>(config, compress, seed);
}

}  // namespace dtrain::comm
