#include "comm/shared_memory/communicator.hpp"

#include <deque>
#include <numeric>

#include "comm/group_of_one.hpp"
#include "comm/shared_memory/group.hpp"
#include "comm/split.hpp"

namespace dtrain::comm {

namespace {

class SharedMemoryCommunicator final : public Communicator {
 public:
  SharedMemoryCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank), requests_(ranks()), buffers_(ranks()) {}

  ~SharedMemoryCommunicator() override {
    if (!group_->failed()) update_finished();
    if (finished_ != started_) {
      group_->fail(run_error(fmt::format("rank {} left in the middle of an all-reduce", label(rank_)),
                             "its own error, if it reported one, says why"));
    }
    group_->leave_buffers(rank_);
  }

  SharedMemoryCommunicator(const SharedMemoryCommunicator&) = delete;
  SharedMemoryCommunicator& operator=(const SharedMemoryCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }

  Ticket all_reduce(std::span<float> data, backend::DeviceToken ready) override {
    if (ready.event != nullptr)
      throw std::logic_error("the shared-memory communicator was given a device's event");
    return start({.operation = Operation::all_reduce, .count = data.size(), .data = data.data()},
                 2 * others() * data.size_bytes() / ranks());
  }

  void progress() override { progress_below(started_); }

  void wait_for_own(Ticket ticket, const Deadline& deadline) override {
    if (ticket >= started_) throw std::logic_error("wait for a collective that was not started");
    for (;;) {
      progress_below(ticket + 1);
      if (ticket < done_) return;
      wait_for_slowest(deadline);
    }
  }

  void wait(Ticket ticket, const Deadline& deadline) override {
    if (ticket >= started_) throw std::logic_error("wait for a collective that was not started");
    for (;;) {
      progress();
      if (ticket < finished_) return;
      wait_for_slowest(deadline);
    }
  }

  void reduce_scatter(std::span<float> data, const Deadline& deadline) override {
    wait(start_reduce_scatter(data, deadline), deadline);
  }

  void all_gather(std::span<float> data, const Deadline& deadline) override {
    wait(start_all_gather(data, deadline), deadline);
  }

  Ticket start_reduce_scatter(std::span<float> data, const Deadline&) override {
    return start({.operation = Operation::reduce_scatter, .count = data.size(), .data = data.data()},
                 others() * data.size_bytes() / ranks());
  }

  Ticket start_all_gather(std::span<float> data, const Deadline&) override {
    return start({.operation = Operation::all_gather, .count = data.size(), .data = data.data()},
                 others() * data.size_bytes() / ranks());
  }

  void broadcast(std::span<float> data, int root, const Deadline& deadline) override {
    check_peer(root);
    wait(start({.operation = Operation::broadcast, .root = root, .count = data.size(), .data = data.data()},
               root == rank_ ? others() * data.size_bytes() : 0),
         deadline);
  }

  void barrier(const Deadline& deadline) override {
    wait(start({.operation = Operation::barrier}, 0), deadline);
  }

  std::vector<double> all_gather_values(std::span<const double> mine, const Deadline& deadline) override {
    std::vector<double> gathered(mine.size() * ranks());
    wait(start({.operation = Operation::gather_values,
                .count = mine.size(),
                .values = mine.data(),
                .gathered = gathered.data()},
               others() * mine.size_bytes()),
         deadline);
    return gathered;
  }

  void send(std::span<const float> data, int to, const Deadline& deadline) override {
    group_->check(rank_);
    check_peer(to);
    Mailbox& box = group_->mailbox(rank_, to);
    const std::uint64_t sent = box.sent.load();
    wait_for_peer(
        to, [&] { return box.taken.load() == sent; }, "take a message", deadline);
    box.message.assign(data.begin(), data.end());
    box.sent.store(sent + 1);
    group_->seat(rank_).event.notify();
    bytes_sent_ += data.size_bytes();
  }

  void receive(std::span<float> data, int from, const Deadline& deadline) override {
    group_->check(rank_);
    check_peer(from);
    Mailbox& box = group_->mailbox(from, rank_);
    const std::uint64_t taken = box.taken.load();
    wait_for_peer(
        from, [&] { return box.sent.load() > taken; }, "send a message", deadline);
    if (box.message.size() != data.size()) {
      fail(fmt::format("rank {} sent {} floats to rank {}, which expected {}", label(from),
                       box.message.size(), label(rank_), data.size()),
           "sender and receiver must agree on the length");
    }
    std::copy(box.message.begin(), box.message.end(), data.begin());
    box.taken.store(taken + 1);
    group_->seat(rank_).event.notify();
  }

  void abort(const std::string& reason) override {
    group_->fail(run_error(fmt::format("rank {} aborted: {}", label(rank_), reason),
                           fmt::format("look for the cause at rank {}", label(rank_))));
    group_->leave_buffers(rank_);
  }

  std::unique_ptr<Communicator> split(int colour, const Deadline& deadline) override {
    const double mine = colour;
    const std::vector<double> colours = all_gather_values({&mine, 1}, deadline);
    const auto [members, rank] = part_of(colours, rank_);
    const std::uint64_t number = splits_++;
    if (members.size() == 1) return make_group_of_one(label(rank_));
    return std::make_unique<SharedMemoryCommunicator>(group_->subgroup(number, colour, members), rank);
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  std::size_t others() const { return ranks() - 1; }
  int label(int rank) const { return group_->name_of(rank); }

  void check_peer(int peer) const {
    if (peer < 0 || peer >= size()) {
      throw std::logic_error(fmt::format("rank {} asked for, in a group of {}", peer, size()));
    }
  }

  [[noreturn]] void fail(const std::string& what, const std::string& advice) {
    group_->fail(run_error(what, advice));
    group_->check(rank_);
    std::abort();  // check has thrown
  }

  [[noreturn]] void fail_late(int late, const std::string& deed, const Deadline& deadline) {
    fail(fmt::format("rank {} did not {} within {:g} s (rank {} waited)", label(late), deed,
                     deadline.allowed().count(), label(rank_)),
         fmt::format("see what rank {} was doing; if it was only slow, raise --timeout", label(late)));
  }

  Ticket start(const Request& request, std::uint64_t bytes) {
    group_->check(rank_);
    bytes_sent_ += bytes;
    if (published_ == finished_ + ring_size) update_finished();
    publish_backlog();
    if (backlog_.empty() && published_ < finished_ + ring_size) {
      publish(request);
    } else {
      backlog_.push_back(request);
    }
    return started_++;
  }

  // Does this rank's part of the collectives below `end` that all have come to.
  void progress_below(std::uint64_t end) {
    group_->check(rank_);
    if (finished_ == started_) return;
    for (;;) {
      publish_backlog();
      while (done_ < std::min(published_, end) && all_came()) do_part();
      const std::uint64_t before = finished_;
      update_finished();
      if (backlog_.empty() || finished_ == before) return;
    }
  }

  void publish_backlog() {
    while (!backlog_.empty() && published_ < finished_ + ring_size) {
      publish(backlog_.front());
      backlog_.pop_front();
    }
  }

  // All ranks are past the collective that used this place in the ring, because it is finished.
  void publish(const Request& request) {
    Post& post = group_->post(rank_, published_);
    post.request = request;
    post.number.store(++published_);
    group_->seat(rank_).event.notify();
  }

  bool has_come(int rank) const { return group_->post(rank, done_).number.load() == done_ + 1; }

  bool all_came() {
    while (came_ < size() && has_come(came_)) ++came_;
    return came_ == size();
  }

  void update_finished() {
    std::uint64_t lowest = done_;
    for (int rank = 0; rank < size(); ++rank) {
      const std::uint64_t done = group_->seat(rank).done.load();
      if (done >= lowest) continue;
      lowest = done;
      slowest_ = rank;
    }
    finished_ = lowest;
  }

  void do_part() {
    gather_requests();
    Seat& seat = group_->seat(rank_);
    seat.busy.store(true);
    const bool failed = group_->failed();
    if (!failed) comm::do_part(requests_, buffers_, rank_);
    seat.busy.store(false);
    group_->check(rank_);
    came_ = 0;
    seat.done.store(++done_);
    seat.event.notify();
  }

  void gather_requests() {
    for (int rank = 0; rank < size(); ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      requests_[at] = group_->post(rank, done_).request;
      buffers_[at] = requests_[at].data;
    }
    if (const auto other = find_disagreement(requests_)) {
      fail(fmt::format("rank {} started {} but rank {} {} (collective {} of the group)", label(0),
                       describe(requests_.front()), label(*other),
                       describe(requests_[static_cast<std::size_t>(*other)]), done_),
           "all ranks must start the same collectives in the same order and with the same sizes");
    }
  }

  // Waits for the lowest rank that holds up the oldest unfinished collective to take its next step.
  void wait_for_slowest(const Deadline& deadline) {
    const bool missing = done_ < published_;
    const int late = missing ? came_ : slowest_;
    const auto& theirs = group_->seat(late).done;
    const auto ready = [&] {
      return (missing ? has_come(late) : theirs.load() > finished_) || group_->failed();
    };
    if (group_->seat(late).event.wait(ready, deadline.at(), group_->patience())) return;
    const auto what = name(group_->post(rank_, missing ? done_ : finished_).request.operation);
    fail_late(late, fmt::format("{} the {}", missing ? "reach" : "finish its part of", what), deadline);
  }

  // Goes on with collectives meanwhile, because the peer may need them to come here.
  template <class Ready>
  void wait_for_peer(int peer, const Ready& ready, const char* deed, const Deadline& deadline) {
    constexpr auto between_progress = std::chrono::milliseconds(1);
    const auto ready_or_failed = [&] { return ready() || group_->failed(); };
    while (!ready()) {
      progress();
      const bool idle = finished_ == started_;
      const TimePoint until =
          idle ? deadline.at() : std::min<TimePoint>(deadline.at(), Clock::now() + between_progress);
      const bool came = group_->seat(peer).event.wait(ready_or_failed, until, group_->patience());
      group_->check(rank_);
      if (!came && deadline.passed()) fail_late(peer, deed, deadline);
    }
  }

  std::shared_ptr<Group> group_;
  int rank_;
  std::vector<Request> requests_;  // of collective done_, by rank
  std::vector<float*> buffers_;
  std::deque<Request> backlog_;  // started while the ring was full

  // Numbers of collectives: finished_ <= done_ <= published_ <= started_.
  std::uint64_t started_ = 0;
  std::uint64_t published_ = 0;  // other ranks can see them
  std::uint64_t done_ = 0;       // this rank has done its part
  std::uint64_t finished_ = 0;   // all ranks have done theirs, as far as is known
  int came_ = 0;                 // ranks below it have come to collective done_
  int slowest_ = 0;              // the lowest rank that has not done its part of collective finished_

  std::uint64_t splits_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

class SharedMemoryGroup final : public LocalGroup {
 public:
  SharedMemoryGroup(int size, const Patience& patience) : joined_(static_cast<std::size_t>(size)) {
    std::vector<int> names(static_cast<std::size_t>(size));
    std::iota(names.begin(), names.end(), 0);
    group_ = std::make_shared<Group>(std::move(names), patience);
  }

  std::unique_ptr<Communicator> join(int rank, backend::DeviceStream) override {
    if (rank < 0 || rank >= group_->size()) {
      throw std::logic_error(fmt::format("rank {} joins a group of {}", rank, group_->size()));
    }
    if (joined_[static_cast<std::size_t>(rank)].exchange(true)) {
      throw std::logic_error(fmt::format("rank {} joins twice", rank));
    }
    if (group_->size() == 1) return make_group_of_one(0);
    return std::make_unique<SharedMemoryCommunicator>(group_, rank);
  }

 private:
  std::vector<std::atomic<bool>> joined_;
  std::shared_ptr<Group> group_;
};

}  // namespace

std::unique_ptr<LocalGroup> make_shared_memory_group(const LocalGroupConfig& config) {
  if (config.size < 1) throw std::logic_error(fmt::format("a group of {} ranks", config.size));
  // A rank that has a core to itself gains nothing by giving it up soon, and pays for waking up.
  const Patience patience = config.oversubscribed ? Patience{}
                                                  : Patience{.spin = std::chrono::microseconds(20),
                                                             .yield = std::chrono::milliseconds(2)};
  return std::make_unique<SharedMemoryGroup>(config.size, patience);
}

}  // namespace dtrain::comm
