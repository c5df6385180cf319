#include "cluster/chief.hpp"

#include <condition_variable>
#include <mutex>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cluster/absence.hpp"
#include "cluster/job_server.hpp"
#include "cluster/lobby.hpp"
#include "cluster/local_job.hpp"
#include "cluster/log_interval.hpp"
#include "cluster/pulse.hpp"
#include "cluster/sockets.hpp"
#include "cluster/this_process.hpp"
#include "cluster/time_text.hpp"
#include "cluster/wire.hpp"

namespace dtrain::cluster {

namespace {

constexpr int spare_streams = 16;
constexpr Seconds farewell{2.0};
constexpr Seconds farewell_after_loss{1.0};

Peer chief_peer(const config::Task& task) {
  Peer peer = this_process();
  peer.role = task.role;
  peer.index = task.index;
  peer.address = task.address;
  return peer;
}

// How the others reach this process: by its address on the way to one of them, best to one of another host.
std::string chief_reached_at(const std::vector<Peer>& peers) {
  std::string found = "127.0.0.1";
  for (const auto& peer : peers) {
    if (peer.rank == 0 || is_loopback(peer.reached_at)) continue;
    const std::string ip = local_ip_towards(peer.reached_at);
    if (ip.empty()) continue;
    found = ip;
    if (peer.boot != peers.front().boot) break;
  }
  return found;
}

// For others to reach: a wildcard says nothing to them, so the address of the default route stands for it.
std::string published_host(const std::string& host) {
  if (host != all_interfaces && host != "::") return host;
  const std::string ip = local_ip_towards("192.0.2.1");
  return ip.empty() ? "127.0.0.1" : ip;
}

class Chief : public Host {
 public:
  Chief(const JobConfig& config, std::vector<config::Task> tasks)
      : config_(config),
        start_(Clock::now()),
        lobby_(tasks, protocol, config.build, chief_peer(tasks.front())),
        self_(describe(tasks.front())),
        seats_(tasks.size()),
        absence_(config.timeout) {}

  void listen();
  std::shared_ptr<Board> assemble();
  void watch();
  void close();
  void tell(const Loss& loss);

  void received(const std::shared_ptr<Seat>& seat, wire::ToChief& message) override;
  void ended(const std::shared_ptr<Seat>& seat) override;
  void turned_away(const std::string& from, const std::string& why) override;

 private:
  struct Place {
    std::shared_ptr<Seat> seat;
    std::int64_t heard_ns = 0;
  };

  // Under the lock.
  std::optional<int> rank_of(const std::shared_ptr<Seat>& seat) const;
  bool nobody_left() const;
  void admit(const std::shared_ptr<Seat>& seat, const wire::Hello& hello);
  void depart(int rank);
  void start();
  void send_to_all(const wire::ToMember& message);
  std::string waiting_text(Seconds waited) const;

  Seconds waited() const;
  void look_for_the_silent(bool late);
  std::string silence() const { return "does not answer for " + time_text(config_.timeout); }
  [[noreturn]] void give_up();

  const JobConfig config_;
  const TimePoint start_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Lobby lobby_;
  const std::string self_;
  std::vector<Place> seats_;  // by rank
  std::shared_ptr<Board> board_;
  std::uint64_t strangers_ = 0;
  bool given_up_ = false;
  Absence absence_;
  std::unique_ptr<JobServer> server_;
  std::unique_ptr<Pulse> pulse_;
};

class ChiefLink : public DirectLink {
 public:
  ChiefLink(std::shared_ptr<Chief> chief, std::shared_ptr<Board> board, Seconds progress_age)
      : DirectLink(0, std::move(board)), chief_(std::move(chief)), progress_age_(progress_age) {}
  Seconds progress_age() const override { return progress_age_; }
  void close() override { chief_->close(); }

 private:
  std::shared_ptr<Chief> chief_;
  const Seconds progress_age_;
};

void Chief::listen() {
  const config::Address address = config::split_address(config_.rendezvous);
  if (const auto resolved = resolve(address.host); resolved.ips.empty()) {
    // In a cluster a name is often there only after the process that it names.
    log_warning(fmt::format("{} is to listen at {}: {}; it listens on all interfaces", self_,
                            config_.rendezvous, resolved.problem));
  }
  Listening at{interface_of(address.host), address.port};
  if (at.port != 0) take_port(at.ip, at.port, self_);
  server_ =
      std::make_unique<JobServer>(at, config_.token, config_.tls, lobby_.world() + spare_streams, *this);
  at.port = server_->port();
  const std::string published = config::join_address(published_host(address.host), at.port);
  log_info(fmt::format("cluster: {} listens at {}{}, for {} more", self_, published,
                       at.ip == all_interfaces ? " on all interfaces" : "", lobby_.world() - 1));
  if (config_.publish) config_.publish(published);
}

std::shared_ptr<Board> Chief::assemble() {
  const TimePoint end = start_ + std::chrono::duration_cast<Duration>(config_.rendezvous_timeout);
  LogInterval interval;
  std::unique_lock lock(mutex_);
  while (!board_) {
    changed_.wait_until(lock, std::min(end, interval.next()), [&] { return board_ != nullptr; });
    if (board_) break;
    if (Clock::now() >= end) give_up();
    if (!interval.due()) continue;
    log_info("cluster: " + waiting_text(waited()));
    wire::ToMember message;
    message.set_waiting(waiting_text(waited()));
    send_to_all(message);
  }
  log_info(fmt::format("cluster: all {} present after {}", lobby_.world(), time_text(Clock::now() - start_)));
  return board_;
}

std::string Chief::waiting_text(Seconds waited) const {
  return fmt::format("{} of {} present after {}; missing: {}", lobby_.present(), lobby_.world(),
                     time_text(waited), lobby_.missing());
}

Seconds Chief::waited() const { return Seconds(std::round(seconds(Clock::now() - start_) * 10.0) / 10.0); }

void Chief::give_up() {
  std::string reason = waiting_text(config_.rendezvous_timeout);
  if (!lobby_.refusals().empty()) reason += "; refused: " + dtrain::join(lobby_.refusals(), "; ");
  const std::string advice = "start the missing processes and see that they can reach " + config_.rendezvous +
                             ", or give them more time with --rendezvous-timeout";
  wire::ToMember message;
  message.mutable_refusal()->set_reason(reason);
  message.mutable_refusal()->set_advice(advice);
  send_to_all(message);
  given_up_ = true;
  throw run_error(reason, advice);
}

void Chief::send_to_all(const wire::ToMember& message) {
  for (const auto& place : seats_) {
    if (place.seat) place.seat->send(message);
  }
}

std::optional<int> Chief::rank_of(const std::shared_ptr<Seat>& seat) const {
  const auto place = std::ranges::find(seats_, seat, &Place::seat);
  if (place == seats_.end()) return std::nullopt;
  return static_cast<int>(place - seats_.begin());
}

void Chief::received(const std::shared_ptr<Seat>& seat, wire::ToChief& message) {
  std::optional<int> rank;
  std::shared_ptr<Board> board;
  {
    const std::lock_guard lock(mutex_);
    rank = rank_of(seat);
    board = board_;
    if (!rank) {
      if (message.has_hello()) return admit(seat, message.hello());
      return seat->close();
    }
    seats_[static_cast<std::size_t>(*rank)].heard_ns = now_ns();
  }
  if (!board) return;
  if (message.has_beat()) {
    board->announce(*rank, message.beat().progress());
    wire::ToMember beat;
    beat.mutable_beat();
    seat->send(std::move(beat));
  } else if (message.has_expiry()) {
    board->expire(*rank, message.expiry().id(), Seconds(message.expiry().waited_seconds()));
  } else if (message.has_question()) {
    const std::uint64_t id = message.question().id();
    auto question = from_wire(*message.mutable_question());
    if (!question) return board->gone(*rank, "asked what the chief does not understand");
    board->ask(*rank, id, std::move(*question),
               [seat, id](const Answer& answer) { seat->send(to_wire(id, answer)); });
  }
}

void Chief::admit(const std::shared_ptr<Seat>& seat, const wire::Hello& message) {
  Hello hello{message.protocol(), message.build().substr(0, 200), message.world(), from_wire(message.peer())};
  hello.peer.joined_seconds = seconds(Clock::now() - start_);
  auto refusal = lobby_.admit(hello);
  if (given_up_) refusal = "the chief has stopped waiting";
  const std::string who = hello.peer.describe();
  const std::string from =
      fmt::format("from {} (process {} on {})", seat->from(), hello.peer.process, hello.peer.host);
  if (refusal) {
    log_warning(fmt::format("cluster: refused {} {}: {}", who, from, *refusal));
    wire::ToMember told;
    told.mutable_refusal()->set_reason(*refusal);
    seat->send(std::move(told));
    return seat->close();
  }
  seats_[static_cast<std::size_t>(hello.peer.rank)] = {seat, now_ns()};
  log_info(fmt::format("cluster: {} joined {} after {}: {} of {} present", who, from,
                       time_text(Seconds(hello.peer.joined_seconds)), lobby_.present(), lobby_.world()));
  if (lobby_.complete()) start();
}

void Chief::start() {
  std::vector<Peer> peers = lobby_.peers();
  peers.front().reached_at = chief_reached_at(peers);
  wire::ToMember message;
  for (auto& peer : peers) {
    if (peer.boot == peers.front().boot && is_loopback(peer.reached_at))
      peer.reached_at = peers.front().reached_at;
    *message.mutable_welcome()->add_peers() = to_wire(peer);
  }
  absence_.begin();
  board_ = std::make_shared<Board>(std::move(peers));
  for (auto& place : seats_) place.heard_ns = now_ns();
  send_to_all(message);
  changed_.notify_all();
}

void Chief::ended(const std::shared_ptr<Seat>& seat) {
  std::optional<int> rank;
  std::shared_ptr<Board> board;
  {
    const std::lock_guard lock(mutex_);
    rank = rank_of(seat);
    if (!rank) return;
    board = board_;
    seats_[static_cast<std::size_t>(*rank)].seat.reset();
    if (!board) depart(*rank);
  }
  changed_.notify_all();
  if (!board) return;
  if (absence_.recent()) {
    board->fail(0, silence());
  } else {
    board->gone(*rank, "ended without a word");
  }
}

void Chief::depart(int rank) {
  lobby_.depart(rank);
  if (given_up_) return;
  log_warning(fmt::format("cluster: rank {} has gone again; {}", rank, waiting_text(waited())));
}

void Chief::turned_away(const std::string& from, const std::string& why) {
  std::uint64_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = ++strangers_;
  }
  const bool power_of_two = (count & (count - 1)) == 0;
  if (!power_of_two) return;
  log_warning(fmt::format("cluster: turned away a stranger from {}: {} ({} so far)", from, why, count));
}

void Chief::watch() {
  pulse_ = std::make_unique<Pulse>(pulse_interval(config_.timeout),
                                   [this](bool late) { look_for_the_silent(late); });
}

void Chief::look_for_the_silent(bool late) {
  absence_.beat();
  const std::int64_t now = now_ns();
  std::optional<int> silent;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
      Place& place = seats_[rank];
      if (late) place.heard_ns = now;
      const bool answers = Duration(now - place.heard_ns) <= config_.timeout;
      if (place.seat && !answers && !silent) silent = static_cast<int>(rank);
    }
  }
  if (silent) board_->gone(*silent, silence());
}

void Chief::tell(const Loss& loss) {
  wire::ToMember message;
  *message.mutable_loss() = to_wire(loss);
  const std::lock_guard lock(mutex_);
  send_to_all(message);
  for (const auto& place : seats_) {
    if (place.seat) place.seat->close();
  }
}

bool Chief::nobody_left() const {
  return std::ranges::none_of(seats_, [](const Place& place) { return place.seat != nullptr; });
}

void Chief::close() {
  if (!server_) return;
  {
    const bool lost = board_ && board_->loss();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, lost ? farewell_after_loss : farewell, [&] { return nobody_left(); });
  }
  pulse_.reset();
  server_.reset();
}

}  // namespace

std::unique_ptr<Member> open_job(const JobConfig& config, std::vector<config::Task> tasks) {
  const auto chief = std::make_shared<Chief>(config, std::move(tasks));
  chief->listen();
  std::shared_ptr<Board> board;
  try {
    board = chief->assemble();
  } catch (const Error&) {
    chief->close();
    throw;
  }
  board->on_loss([known = std::weak_ptr(chief)](const Loss& loss) {
    if (const auto there = known.lock()) there->tell(loss);
  });
  chief->watch();
  return std::make_unique<BoardMember>(
      0, board->peers(), make_bell(*board),
      std::make_unique<ChiefLink>(chief, board, 1.5 * pulse_interval(config.timeout)));
}

}  // namespace dtrain::cluster
