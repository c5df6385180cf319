#include "comm/blame.hpp"

#include <algorithm>
#include <thread>

#include "base/error.hpp"

namespace dtrain::comm {

namespace {

// Of the other members, the only one that is reached at an address in this text.
std::optional<int> find_addressed(const ExchangeConfig& config, const std::string& text) {
  std::optional<int> found;
  for (const int rank : config.members) {
    const auto& peer = config.member->peers()[static_cast<std::size_t>(rank)];
    if (rank == config.member->rank() || peer.reached_at.empty()) continue;
    if (text.find("[" + peer.reached_at + "]") == std::string::npos) continue;
    if (found) return std::nullopt;
    found = rank;
  }
  return found;
}

const cluster::Peer& peer_of(const ExchangeConfig& config, int member) {
  return config.member->peers()[static_cast<std::size_t>(member)];
}

}  // namespace

std::string describe_process(const ExchangeConfig& config, int rank) {
  return peer_of(config, config.members[static_cast<std::size_t>(rank)]).describe();
}

void blame(const ExchangeConfig& config, const std::string& deed, const std::string& library_text) {
  const Deadline moment = Deadline::in(Seconds(1.0));
  do {
    config.member->check();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (!moment.passed());
  if (config.progress) {
    if (const auto behind = config.member->first_behind(config.progress(), config.members)) {
      const std::string name = peer_of(config, *behind).describe();
      throw JobEnded(fmt::format("{} did not come to {} within {:g} s", name, deed, config.timeout.count()),
                     fmt::format("see what {} was doing; if it was only slow, raise --timeout", name));
    }
  }
  if (const auto addressed = find_addressed(config, library_text)) {
    const std::string name = peer_of(config, *addressed).describe();
    throw JobEnded(fmt::format("lost the connection to {} in {}: {}", name, deed, library_text),
                   fmt::format("see what became of {}", name));
  }
  throw JobEnded(fmt::format("{} between {} processes failed: {}", deed, config.members.size(), library_text),
                 "see what became of the other processes; if they were only slow, raise --timeout");
}

}  // namespace dtrain::comm
