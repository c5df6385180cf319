#include "comm/spanning/communicator.hpp"

#include "comm/group_of_one.hpp"
#include "comm/split.hpp"

namespace dtrain::comm {

namespace {

class SpanningCommunicator final : public Communicator {
 public:
  SpanningCommunicator(std::shared_ptr<SpanningCore> core, int rank, std::unique_ptr<Communicator> neighbour)
      : core_(std::move(core)), rank_(rank), neighbour_(std::move(neighbour)) {}

  ~SpanningCommunicator() override {
    if (started_ == 0 || core_->failed()) return;
    try {
      if (core_->done(started_ - 1)) return;
    } catch (const Error&) {
      return;
    }
    core_->fail(run_error(fmt::format("rank {} left in the middle of an all-reduce", core_->name_of(rank_)),
                          "its own error, if it reported one, says why"));
    leave_buffers();
  }

  SpanningCommunicator(const SpanningCommunicator&) = delete;
  SpanningCommunicator& operator=(const SpanningCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return core_->size(); }
  std::uint64_t bytes_sent() const override { return counts_here() ? core_->bytes_sent() : 0; }
  std::uint64_t bytes_uncompressed() const override {
    return counts_here() ? core_->bytes_uncompressed() : 0;
  }

  Ticket all_reduce(std::span<float> data, backend::DeviceToken ready) override {
    if (ready.event != nullptr) {
      throw std::logic_error("a communicator between CPU workers was given a device's event");
    }
    return start({.operation = Operation::all_reduce, .count = data.size(), .data = data.data()});
  }

  void progress() override { core_->check(); }

  void wait(Ticket ticket, const Deadline& deadline) override {
    if (ticket >= started_) throw std::logic_error("wait for a collective that was not started");
    core_->check();
    core_->wait(ticket, rank_, deadline);
  }

  void register_buffer(std::span<float> data) override {
    if (!counts_here()) return;
    const Deadline deadline = Deadline::in(core_->config().timeout);
    core_->on_lane([&] { core_->exchange().register_buffer(data); }, "come so far", rank_, deadline);
  }

  void reduce_scatter(std::span<float> data, const Deadline& deadline) override {
    wait(start_reduce_scatter(data, deadline), deadline);
  }

  void all_gather(std::span<float> data, const Deadline& deadline) override {
    wait(start_all_gather(data, deadline), deadline);
  }

  Ticket start_reduce_scatter(std::span<float> data, const Deadline&) override {
    return start({.operation = Operation::reduce_scatter, .count = data.size(), .data = data.data()});
  }

  Ticket start_all_gather(std::span<float> data, const Deadline&) override {
    return start({.operation = Operation::all_gather, .count = data.size(), .data = data.data()});
  }

  void broadcast(std::span<float> data, int root, const Deadline& deadline) override {
    check_peer(root);
    wait(start({.operation = Operation::broadcast, .root = root, .count = data.size(), .data = data.data()}),
         deadline);
  }

  void barrier(const Deadline& deadline) override {
    wait(start({.operation = Operation::barrier}), deadline);
  }

  std::vector<double> all_gather_values(std::span<const double> mine, const Deadline& deadline) override {
    std::vector<double> gathered(mine.size() * static_cast<std::size_t>(size()));
    wait(start({.operation = Operation::gather_values,
                .count = mine.size(),
                .values = mine.data(),
                .gathered = gathered.data()}),
         deadline);
    return gathered;
  }

  void send(std::span<const float> data, int to, const Deadline& deadline) override {
    core_->check();
    check_peer(to);
    if (core_->is_local(to)) {
      neighbour_->send(data, to - core_->first_rank(), deadline);
    } else {
      core_->send_message(data, rank_, to, deadline);
    }
  }

  void receive(std::span<float> data, int from, const Deadline& deadline) override {
    core_->check();
    check_peer(from);
    if (core_->is_local(from)) return neighbour_->receive(data, from - core_->first_rank(), deadline);
    const std::vector<float> message = core_->receive_message(from, rank_, deadline);
    if (message.size() != data.size()) {
      const Error error =
          run_error(fmt::format("rank {} sent {} floats to rank {}, which expected {}", core_->name_of(from),
                                message.size(), core_->name_of(rank_), data.size()),
                    "sender and receiver must agree on the length");
      core_->fail(error);
      throw Error(error);
    }
    std::ranges::copy(message, data.begin());
  }

  void abort(const std::string& reason) override {
    const std::string what = fmt::format("rank {} aborted: {}", core_->name_of(rank_), reason);
    core_->fail(run_error(what, fmt::format("look for the cause at rank {}", core_->name_of(rank_))));
    if (neighbour_) neighbour_->abort(reason);
    leave_buffers();
  }

  std::unique_ptr<Communicator> split(int colour, const Deadline& deadline) override {
    const double mine = colour;
    const std::vector<double> colours = all_gather_values({&mine, 1}, deadline);
    const auto [members, rank] = part_of(colours, rank_);
    const std::uint64_t number = splits_++;
    auto beside = neighbour_ ? neighbour_->split(colour, deadline) : nullptr;
    if (members.size() == 1) return make_group_of_one(core_->name_of(rank_));
    return make_spanning_communicator(core_->subgroup(number, colour, members, deadline), rank,
                                      std::move(beside));
  }

 private:
  bool counts_here() const { return rank_ == core_->first_rank(); }

  void check_peer(int peer) const {
    if (peer < 0 || peer >= size()) {
      throw std::logic_error(fmt::format("rank {} asked for, in a group of {}", peer, size()));
    }
  }

  Ticket start(const Request& request) {
    core_->post(rank_ - core_->first_rank(), request);
    return started_++;
  }

  // A failed group throws only when nobody is at any buffer.
  void leave_buffers() {
    try {
      core_->check();
    } catch (const Error&) {
    }
  }

  std::shared_ptr<SpanningCore> core_;
  const int rank_;
  std::unique_ptr<Communicator> neighbour_;
  std::uint64_t started_ = 0;
  std::uint64_t splits_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_spanning_communicator(std::shared_ptr<SpanningCore> core, int rank,
                                                         std::unique_ptr<Communicator> neighbour) {
  return std::make_unique<SpanningCommunicator>(std::move(core), rank, std::move(neighbour));
}

}  // namespace dtrain::comm
