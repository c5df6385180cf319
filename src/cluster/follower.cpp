#include "cluster/follower.hpp"

#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cluster/follower_link.hpp"
#include "cluster/lobby.hpp"
#include "cluster/log_interval.hpp"
#include "cluster/this_process.hpp"
#include "cluster/time_text.hpp"
#include "cluster/wire.hpp"

namespace dtrain::cluster {

namespace {

constexpr Seconds patience_a_try{2.0};
constexpr std::chrono::milliseconds pause{50};
// The chief's word on who is missing is better than this side's.
constexpr Seconds grace{1.0};

Deadline at_most(const Deadline& deadline, Seconds limit) {
  return Deadline::in(std::min(limit, Seconds(std::max(seconds(deadline.at() - Clock::now()), 0.001))));
}

// The port of this task's own address, taken where nobody else opens it.
Descriptor hold_own_port(const config::Task& self) {
  if (self.address.empty() || self.role == "ps") return Descriptor();
  const config::Address address = config::split_address(self.address);
  return take_port(interface_of(address.host), address.port, describe(self));
}

wire::Hello hello_of(const JobConfig& config, const config::Task& self, const Contact& contact) {
  Peer peer = this_process();
  peer.rank = config.place.rank;
  peer.role = self.role;
  peer.index = self.index;
  peer.address = self.address;
  peer.reached_at = contact.local_ip;
  wire::Hello hello;
  hello.set_protocol(protocol);
  hello.set_build(config.build);
  hello.set_world(config.place.world);
  *hello.mutable_peer() = to_wire(peer);
  return hello;
}

// In front of what gRPC says of the cause.
std::string no_chief(const std::string& reason) {
  constexpr std::string_view before_cause = "last error: ";
  const auto cause = reason.find(before_cause);
  return fmt::format("the port is open, but no chief answers there, or only one of the two uses TLS ({})",
                     cause == std::string::npos ? reason : reason.substr(cause + before_cause.size()));
}

// Tries until the deadline, saying so at intervals.
class Search {
 public:
  Search(const JobConfig& config, const config::Task& self)
      : config_(config),
        self_(self),
        port_(hold_own_port(self)),
        address_(config::split_address(config.rendezvous)),
        deadline_(Deadline::in(config.rendezvous_timeout)) {}

  std::unique_ptr<Member> run() {
    log_info(fmt::format("cluster: {} joins the job at {}", describe(self_), config_.rendezvous));
    std::string problem;
    while (true) {
      const Contact contact = try_connect(address_, at_most(deadline_, patience_a_try).allowed());
      problem = contact.problem;
      if (contact.made) {
        if (auto member = try_to_join(contact, problem)) return member;
      }
      if (deadline_.passed()) break;
      if (interval_.due()) {
        log_info(fmt::format("cluster: {} has tried to reach the chief at {} for {}: {}", describe(self_),
                             config_.rendezvous, time_text(elapsed()), problem));
      }
      std::this_thread::sleep_for(pause);
    }
    throw run_error(
        fmt::format("{} could not reach the chief at {} within {}: {}", describe(self_), config_.rendezvous,
                    time_text(config_.rendezvous_timeout), problem),
        "start the process of rank 0, see that the address is right and that nothing blocks the way, or "
        "raise --rendezvous-timeout");
  }

 private:
  std::unique_ptr<Member> try_to_join(const Contact& contact, std::string& problem) {
    auto link = std::make_unique<FollowerLink>(
        config_, ChiefAddress{address_.host, contact.ip, address_.port}, hello_of(config_, self_, contact));
    const auto outcome = link->wait(Deadline::in(at_most(deadline_, Seconds(1e9)).allowed() + grace));
    if (!outcome.peers.empty()) {
      log_info(fmt::format("cluster: {} is in a job of {} after {}", describe(self_), outcome.peers.size(),
                           time_text(elapsed())));
      auto bell = std::make_shared<LossBell>();
      link->start(bell, std::move(port_));
      return std::make_unique<BoardMember>(config_.place.rank, outcome.peers, bell, std::move(link));
    }
    if (outcome.refused) refuse(outcome);
    if (!outcome.missing.empty()) {
      throw run_error(outcome.missing, "start the missing processes, or raise --rendezvous-timeout");
    }
    problem = no_chief(outcome.reason.empty() ? "silence" : outcome.reason);
    return nullptr;
  }

  [[noreturn]] void refuse(const FollowerLink::Outcome& outcome) const {
    if (!outcome.advice.empty()) throw run_error(outcome.reason, outcome.advice);
    throw run_error(
        fmt::format("the chief at {} refused {}: {}", config_.rendezvous, describe(self_), outcome.reason),
        "start all processes of a job with the same program, the same cluster and the same token");
  }

  Seconds elapsed() const { return Clock::now() - start_; }

  const JobConfig& config_;
  const config::Task self_;
  Descriptor port_;
  const config::Address address_;
  const TimePoint start_ = Clock::now();
  const Deadline deadline_;
  LogInterval interval_;
};

}  // namespace

std::unique_ptr<Member> follow(const JobConfig& config, const config::Task& self) {
  return Search(config, self).run();
}

}  // namespace dtrain::cluster
