#include "comm/mpi/mpi_exchange.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/blame.hpp"
#include "comm/direct_exchange.hpp"
#include "comm/mpi/runtime.hpp"

namespace dtrain::comm::mpi {

namespace {

constexpr int collective_tag = 1;
constexpr int message_tag = 2;
constexpr std::size_t most_bytes = std::size_t{1} << 30U;  // in a message: MPI counts in 31 bits

// The processes that share a communicator of MPI: where they are in mpirun's order is known to each itself.
MPI_Comm make_communicator(const ExchangeConfig& config, const Runtime& runtime) {
  const auto places = config.member->all_gather("mpi/" + config.name, std::to_string(runtime.rank()),
                                                config.members, Deadline::in(config.timeout));
  std::vector<int> ranks;
  ranks.reserve(places.size());
  for (const auto& place : places) ranks.push_back(std::stoi(place));
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  require(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  require(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group), "MPI_Group_incl");
  const int tag = static_cast<int>(std::hash<std::string>()(config.name) % 30000);
  require(MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &communicator), "MPI_Comm_create_group");
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return communicator;
}

class MpiExchange final : public DirectExchange {
 public:
  MpiExchange(const ExchangeConfig& config, int rank)
      : DirectExchange(rank, static_cast<int>(config.members.size())),
        config_(config),
        communicator_(make_communicator(config, Runtime::get())),
        outbox_(config.members.size()) {
    on_loss_ = config_.member->on_loss([this](const cluster::Loss&) { stop_ = true; });
  }

  ~MpiExchange() override {
    try {
      if (!stop_) {
        config_.member->barrier("mpi/" + config_.name + "/end", config_.members,
                                Deadline::in(std::min(config_.timeout, Seconds(5.0))));
      }
    } catch (const std::exception&) {
      stop_ = true;
    }
    on_loss_.reset();
    if (stop_) {
      Runtime::get().leave_alone();
    } else {
      MPI_Comm_free(&communicator_);
    }
  }

  MpiExchange(const MpiExchange&) = delete;
  MpiExchange& operator=(const MpiExchange&) = delete;

  void all_reduce(std::span<float> data, const Deadline& deadline) override { sum_directly(data, deadline); }

  void send(std::span<const float> data, int to, const Deadline& deadline) override {
    count(data.size_bytes());
    guarded("a message", [&] {
      auto& box = outbox_[static_cast<std::size_t>(to)];
      while (!box.empty() && taken(box.front())) box.pop_front();
      if (box.size() == most_untaken) {
        wait({&box.front().request, 1}, deadline);
        box.pop_front();
      }
      auto& message = box.emplace_back();
      message.data.assign(data.begin(), data.end());
      require(MPI_Isend(message.data.data(), static_cast<int>(data.size()), MPI_FLOAT, to, message_tag,
                        communicator_, &message.request),
              "MPI_Isend");
    });
  }

  void receive(std::span<float> data, int from, const Deadline& deadline) override {
    guarded("a message", [&] {
      MPI_Request request = MPI_REQUEST_NULL;
      require(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_FLOAT, from, message_tag,
                        communicator_, &request),
              "MPI_Irecv");
      wait({&request, 1}, deadline);
    });
  }

  std::unique_ptr<Exchange> subgroup(const std::vector<int>& ranks, const std::string& name) override {
    return make_exchange(subgroup_config(config_, ranks, name));
  }

  void abort(const std::string& reason) override {
    {
      const std::lock_guard lock(mutex_);
      if (!reason_) reason_ = reason;
    }
    stop_ = true;
  }

  std::string describe_all_reduce(std::size_t) const override {
    return size() == 1 ? "one process, nothing to exchange" : "shares summed in rank order over MPI";
  }

 protected:
  void swap(std::span<const std::byte> out, int to, std::span<std::byte> in, int from,
            const Deadline& deadline) override {
    guarded(deed(), [&] {
      do {
        const auto sent = out.first(std::min(out.size(), most_bytes));
        const auto taken = in.first(std::min(in.size(), most_bytes));
        MPI_Request requests[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        if (!taken.empty()) {
          require(MPI_Irecv(taken.data(), static_cast<int>(taken.size()), MPI_BYTE, from, collective_tag,
                            communicator_, &requests[0]),
                  "MPI_Irecv");
        }
        if (!sent.empty()) {
          require(MPI_Isend(sent.data(), static_cast<int>(sent.size()), MPI_BYTE, to, collective_tag,
                            communicator_, &requests[1]),
                  "MPI_Isend");
        }
        wait(requests, deadline);
        out = out.subspan(sent.size());
        in = in.subspan(taken.size());
      } while (!out.empty() || !in.empty());
    });
  }

 private:
  static constexpr std::size_t most_untaken = 64;
  struct Outgoing {
    std::vector<float> data;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static bool taken(Outgoing& message) {
    int done = 0;
    require(MPI_Test(&message.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

  void wait(std::span<MPI_Request> requests, const Deadline& deadline) {
    wait_all(requests, deadline, stop_, config_.busy_cores);
  }

  template <class Call>
  void guarded(const char* what, const Call& call) {
    try {
      if (stop_) throw run_error("the exchange has ended", "see why");
      call();
    } catch (const Error& error) {
      stop_ = true;
      Runtime::get().leave_alone();
      blame(config_, what, aborted().value_or(error.what()));
    }
  }

  std::optional<std::string> aborted() {
    const std::lock_guard lock(mutex_);
    return reason_;
  }

  const ExchangeConfig config_;
  MPI_Comm communicator_;
  std::vector<std::deque<Outgoing>> outbox_;  // by process
  cluster::Member::Handle on_loss_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::optional<std::string> reason_;
};

}  // namespace

std::unique_ptr<Exchange> make_exchange(const ExchangeConfig& config) {
  const auto place = std::ranges::find(config.members, config.member->rank());
  if (place == config.members.end()) throw std::logic_error("a process makes an exchange of others");
  return std::make_unique<MpiExchange>(config, static_cast<int>(place - config.members.begin()));
}

}  // namespace dtrain::comm::mpi
