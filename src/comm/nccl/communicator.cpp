#include "comm/nccl/communicator.hpp"

#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "backend/cuda/memory.hpp"
#include "base/log.hpp"
#include "comm/nccl/messages.hpp"

namespace dtrain::comm {

using backend::cuda::Event;
using backend::cuda::make_event;

namespace {

ncclConfig_t configuration() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // so that every wait is ours, with a deadline
  return config;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(int rank, int size, backend::DeviceStream stream, const NcclOptions& options)
      : stream_(stream),
        options_(options),
        endpoint_(rank, size, stream, options.roster, options.retirement),
        messages_(endpoint_) {
    for (Event& event : finished_) event = make_event();
  }

  ~NcclCommunicator() override {
    try {
      if (!endpoint_.roster().failed()) leave();
    } catch (const std::exception& error) {
      log_warning(error.what());
    }
    endpoint_.end();
  }

  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  NcclHandle& handle() { return endpoint_.handle(); }

  void join(const ncclUniqueId& id) {
    endpoint_.attempt([&] {
      ncclConfig_t config = configuration();
      DTRAIN_CUDA(ncclCommInitRankConfig(handle().place(), size(), id, rank(), &config));
    });
  }

  int rank() const override { return endpoint_.rank(); }
  int size() const override { return endpoint_.size(); }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  bool only_enqueues() const override { return true; }

  // Sums, not averages: gradients were divided by the images of the whole step before they come here, so that
  // ranks with uneven shares of them are weighted as they should be. ncclAvg would divide by the ranks.
  Ticket all_reduce(std::span<float> data, backend::DeviceToken ready) override {
    return endpoint_.attempt([&] {
      const Deadline deadline = default_deadline();
      prepare(deadline);
      endpoint_.start_all_reduce();
      bytes_sent_ += 2 * others() * data.size_bytes() / ranks();
      endpoint_.follow(static_cast<cudaEvent_t>(ready.event));
      note_recording();
      if (!data.empty()) {
        const auto sum = [&](ncclComm_t communicator) {
          DTRAIN_CUDA(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, communicator,
                                    stream()));
        };
        endpoint_.enqueue(sum, awaited("all-reduce"), deadline);
      }
      DTRAIN_CUDA(cudaEventRecord(finished_event(started_), stream()));
      return started_++;
    });
  }

  void progress() override { endpoint_.check(); }

  // A later collective may have taken the ticket's event over: then the stream waits for that one as well.
  void wait(Ticket ticket, const Deadline&) override {
    if (ticket >= started_) throw std::logic_error("wait for a collective that was not started");
    endpoint_.attempt([&] {
      if (ticket < joined_) return;
      DTRAIN_CUDA(cudaStreamWaitEvent(endpoint_.compute(), finished_event(ticket), cudaEventWaitDefault));
      joined_ = ticket + 1;
    });
  }

  // Where the step was replayed, its collectives are known to the compute stream alone.
  void synchronize(const Deadline& deadline) override {
    endpoint_.attempt([&] {
      prepare(deadline);
      endpoint_.meet();
      endpoint_.follow(nullptr);
      endpoint_.wait_for_stream(awaited("all-reduce"), deadline);
    });
  }

  void register_buffer(std::span<float> data) override {
    if (data.empty()) return endpoint_.check();
    endpoint_.attempt([&] {
      endpoint_.connect(default_deadline());
      endpoint_.handle().use([&](ncclComm_t communicator) {
        void* registration = nullptr;
        const auto status = ncclCommRegister(communicator, data.data(), data.size_bytes(), &registration);
        // It is an advantage where the library can make use of it, and nothing is lost where it cannot.
        if (status == ncclSuccess && registration != nullptr) registrations_.push_back(registration);
      });
    });
  }

  void reduce_scatter(std::span<float> data, const Deadline& deadline) override {
    const auto work = [&](ncclComm_t communicator) {
      if (even(data.size())) {
        const std::size_t share = data.size() / ranks();
        DTRAIN_CUDA(ncclReduceScatter(data.data(), data.data() + own_share(data).offset, share, ncclFloat32,
                                      ncclSum, communicator, stream()));
        return;
      }
      for_each_share(data, [&](float* share, std::size_t count, int owner) {
        DTRAIN_CUDA(ncclReduce(share, share, count, ncclFloat32, ncclSum, owner, communicator, stream()));
      });
    };
    meet("reduce-scatter", data.empty() ? nullptr : Work(work), others() * data.size_bytes() / ranks(),
         deadline);
  }

  void all_gather(std::span<float> data, const Deadline& deadline) override {
    const auto work = [&](ncclComm_t communicator) {
      if (even(data.size())) {
        const std::size_t share = data.size() / ranks();
        DTRAIN_CUDA(ncclAllGather(data.data() + own_share(data).offset, data.data(), share, ncclFloat32,
                                  communicator, stream()));
        return;
      }
      for_each_share(data, [&](float* share, std::size_t count, int owner) {
        DTRAIN_CUDA(ncclBroadcast(share, share, count, ncclFloat32, owner, communicator, stream()));
      });
    };
    meet("all-gather", data.empty() ? nullptr : Work(work), others() * data.size_bytes() / ranks(), deadline);
  }

  void broadcast(std::span<float> data, int root, const Deadline& deadline) override {
    check_peer(root);
    const auto work = [&](ncclComm_t communicator) {
      DTRAIN_CUDA(
          ncclBroadcast(data.data(), data.data(), data.size(), ncclFloat32, root, communicator, stream()));
    };
    meet("broadcast", data.empty() ? nullptr : Work(work), root == rank() ? others() * data.size_bytes() : 0,
         deadline);
  }

  void barrier(const Deadline& deadline) override { exchange("barrier", 1, deadline); }

  std::vector<double> all_gather_values(std::span<const double> mine, const Deadline& deadline) override {
    endpoint_.check();
    if (mine.empty()) return {};
    reserve(mine.size());
    std::ranges::copy(mine, host_values_.data() + static_cast<std::size_t>(rank()) * mine.size());
    bytes_sent_ += others() * mine.size_bytes();
    exchange("exchange of values", mine.size(), deadline);
    const double* values = host_values_.data();
    return {values, values + ranks() * mine.size()};
  }

  void send(std::span<const float> data, int to, const Deadline& deadline) override {
    check_peer(to);
    endpoint_.attempt([&] {
      endpoint_.connect(deadline);
      bytes_sent_ += data.size_bytes();
      messages_.send(data, to, deadline);
    });
  }

  void receive(std::span<float> data, int from, const Deadline& deadline) override {
    check_peer(from);
    endpoint_.attempt([&] {
      endpoint_.connect(deadline);
      messages_.receive(data, from, deadline);
    });
  }

  void abort(const std::string& reason) override { endpoint_.abort(reason); }

  std::unique_ptr<Communicator> split(int colour, const Deadline& deadline) override {
    const double mine = colour;
    const std::vector<double> colours = all_gather_values({&mine, 1}, deadline);
    std::vector<int> members;
    int child_rank = 0;
    for (int other = 0; other < size(); ++other) {
      if (static_cast<int>(colours[static_cast<std::size_t>(other)]) != colour) continue;
      if (other == rank()) child_rank = static_cast<int>(members.size());
      members.push_back(other);
    }
    // The child goes after this communicator has been told, where NCCL fails to make it.
    std::unique_ptr<NcclCommunicator> child;
    endpoint_.attempt([&] {
      NcclOptions options = options_;
      options.roster = endpoint_.roster().subgroup(splits_++, colour, members);
      child =
          std::make_unique<NcclCommunicator>(child_rank, static_cast<int>(members.size()), stream_, options);
    });
    endpoint_.attempt([&] {
      ncclConfig_t config = configuration();
      // NCCL's colours must not be negative; the lowest member's rank is as good.
      const auto work = [&](ncclComm_t communicator) {
        DTRAIN_CUDA(ncclCommSplit(communicator, members.front(), rank(), child->handle().place(), &config));
      };
      endpoint_.enqueue(work, awaited("split of the group"), deadline);
    });
    return child;
  }

 private:
  using Work = std::function<void(ncclComm_t)>;

  static constexpr std::size_t event_count = 16;

  cudaStream_t stream() const { return endpoint_.stream(); }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  std::size_t others() const { return ranks() - 1; }
  cudaEvent_t finished_event(Ticket ticket) const { return finished_[ticket % event_count].get(); }
  Deadline default_deadline() const { return Deadline::in(options_.timeout); }

  void check_peer(int peer) const {
    if (peer < 0 || peer >= size()) {
      throw std::logic_error(fmt::format("rank {} asked for, in a group of {}", peer, size()));
    }
  }

  // shard_of gives every rank the same.
  bool even(std::size_t size) const { return size % (16 * ranks()) == 0; }
  backend::Range own_share(std::span<float> data) const { return shard_of(data.size(), rank(), size()); }

  // One call to NCCL for uneven shares: what it reduces or gathers by itself has equal parts, and padding
  // them would take a copy of all the data.
  template <class Visit>
  void for_each_share(std::span<float> data, const Visit& visit) const {
    NcclGroupCall together;
    for (int owner = 0; owner < size(); ++owner) {
      const backend::Range share = shard_of(data.size(), owner, size());
      if (share.size > 0) visit(data.data() + share.offset, share.size, owner);
    }
    together.end();
  }

  void prepare(const Deadline& deadline) {
    endpoint_.connect(deadline);
    messages_.launch(deadline);
  }

  void note_recording() {
    if (recorded_) return;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    DTRAIN_CUDA(cudaStreamIsCapturing(stream(), &status));
    recorded_ = status != cudaStreamCaptureStatusNone;
  }

  // A blocking collective.
  void meet(const std::string& name, const Work& work, std::uint64_t bytes, const Deadline& deadline) {
    endpoint_.attempt([&] {
      prepare(deadline);
      endpoint_.meet();
      bytes_sent_ += bytes;
      if (!work) return;
      endpoint_.follow(nullptr);
      endpoint_.enqueue(work, awaited(name), deadline);
      endpoint_.wait_for_stream(awaited(name), deadline);
    });
  }

  // Gives every rank's `count` values, which lie in host_values_, to all.
  void exchange(const std::string& name, std::size_t count, const Deadline& deadline) {
    reserve(count);
    double* mine = device_values_.data() + static_cast<std::size_t>(rank()) * count;
    const Work work = [&](ncclComm_t communicator) {
      DTRAIN_CUDA(cudaMemcpyAsync(mine, host_values_.data() + static_cast<std::size_t>(rank()) * count,
                                  count * sizeof(double), cudaMemcpyHostToDevice, stream()));
      DTRAIN_CUDA(ncclAllGather(mine, device_values_.data(), count, ncclFloat64, communicator, stream()));
    };
    endpoint_.attempt([&] {
      prepare(deadline);
      endpoint_.meet();
      endpoint_.follow(nullptr);
      endpoint_.enqueue(work, awaited(name), deadline);
      DTRAIN_CUDA(cudaMemcpyAsync(host_values_.data(), device_values_.data(),
                                  ranks() * count * sizeof(double), cudaMemcpyDeviceToHost, stream()));
      endpoint_.wait_for_stream(awaited(name), deadline);
    });
  }

  void reserve(std::size_t count) {
    if (count * ranks() <= host_values_.size()) return;
    endpoint_.attempt([&] {
      device_values_ = DeviceArray<double>(count * ranks());
      host_values_ = backend::cuda::PinnedArray<double>(count * ranks());
      std::fill_n(host_values_.data(), host_values_.size(), 0.0);
    });
  }

  void leave() {
    if (joined_ < started_) return endpoint_.abandon("in the middle of an all-reduce");
    if (!endpoint_.connected() && endpoint_.handle().state() == ncclInProgress) {
      return endpoint_.abandon("before the ranks were connected");
    }
    const Deadline deadline = default_deadline();
    endpoint_.attempt([&] {
      prepare(deadline);
      endpoint_.wait_for_stream(awaited("all-reduce"), deadline);
      endpoint_.handle().use([&](ncclComm_t communicator) {
        for (void* registration : registrations_) {
          DTRAIN_CUDA_QUIETLY(ncclCommDeregister(communicator, registration));
        }
      });
    });
    endpoint_.leave(recorded_, deadline);
  }

  backend::DeviceStream stream_;
  NcclOptions options_;
  NcclEndpoint endpoint_;
  NcclMessages messages_;
  DeviceArray<double> device_values_;
  backend::cuda::PinnedArray<double> host_values_;
  std::array<Event, event_count> finished_;
  std::vector<void*> registrations_;
  Ticket started_ = 0;
  Ticket joined_ = 0;      // the compute stream waits for those below
  bool recorded_ = false;  // a collective was recorded
  std::uint64_t splits_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace

NcclId make_nccl_id() {
  ncclUniqueId made;
  DTRAIN_CUDA(ncclGetUniqueId(&made));
  NcclId id;
  static_assert(sizeof(made) == sizeof(id));
  std::memcpy(id.data(), &made, sizeof(id));
  return id;
}

std::unique_ptr<Communicator> make_nccl_communicator(const NcclId& id, int rank, int size,
                                                     backend::DeviceStream stream,
                                                     const NcclOptions& options) {
  if (stream.device < 0) throw std::logic_error("NCCL was asked to join a replica that is on no GPU");
  NcclOptions complete = options;
  if (!complete.roster) complete.roster = make_lone_roster(size);
  if (!complete.retirement) complete.retirement = std::make_shared<Retirement>();
  ncclUniqueId unique;
  std::memcpy(&unique, id.data(), sizeof(unique));

  const backend::cuda::OnDevice current(stream.device);
  auto communicator = std::make_unique<NcclCommunicator>(rank, size, stream, complete);
  communicator->join(unique);
  return communicator;
}

}  // namespace dtrain::comm
