#include "cluster/lobby.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace dtrain::cluster {

namespace {

constexpr std::size_t most_refusals = 5;
constexpr std::size_t most_listed = 16;

std::string where(const Peer& peer) { return fmt::format("process {} on {}", peer.process, peer.host); }

}  // namespace

std::string describe(const config::Task& task) {
  Peer peer;
  peer.role = task.role;
  peer.index = task.index;
  peer.address = task.address;
  return peer.describe();
}

Lobby::Lobby(std::vector<config::Task> tasks, std::uint32_t protocol, std::string build, const Peer& chief)
    : tasks_(std::move(tasks)),
      protocol_(protocol),
      build_(std::move(build)),
      places_(tasks_.size()),
      came_(tasks_.size()) {
  places_.front() = chief;
}

std::optional<std::string> Lobby::why_not(const Hello& hello) const {
  if (hello.protocol != protocol_ || hello.build != build_) {
    return fmt::format("it is another build: '{}' (protocol {}), where the chief is '{}' (protocol {})",
                       hello.build, hello.protocol, build_, protocol_);
  }
  if (hello.world != world()) {
    return fmt::format("it was told of a job of {}, the chief of one of {}", hello.world, world());
  }
  const Peer& peer = hello.peer;
  if (peer.rank < 0 || peer.rank >= world()) {
    return fmt::format("there is no rank {} in a job of {}", peer.rank, world());
  }
  const auto place = static_cast<std::size_t>(peer.rank);
  if (peer.role != tasks_[place].role || peer.index != tasks_[place].index) {
    return fmt::format("rank {} is {} {} to it, and {} to the chief", peer.rank, peer.role, peer.index,
                       describe(tasks_[place]));
  }
  if (places_[place]) {
    return fmt::format("{} has come twice: {} is here, {} came later", describe(tasks_[place]),
                       where(*places_[place]), where(peer));
  }
  return std::nullopt;
}

std::optional<std::string> Lobby::admit(const Hello& hello) {
  auto refusal = why_not(hello);
  if (!refusal) {
    const auto place = static_cast<std::size_t>(hello.peer.rank);
    places_[place] = hello.peer;
    came_[place] = true;
  } else if (refusals_.size() < most_refusals) {
    refusals_.push_back(
        fmt::format("{} {} ({}): {}", hello.peer.role, hello.peer.index, where(hello.peer), *refusal));
  }
  return refusal;
}

void Lobby::depart(int rank) { places_.at(static_cast<std::size_t>(rank)).reset(); }

int Lobby::present() const {
  return static_cast<int>(
      std::ranges::count_if(places_, [](const auto& place) { return place.has_value(); }));
}

std::string Lobby::missing() const {
  std::vector<std::string> names;
  std::size_t more = 0;
  for (std::size_t rank = 0; rank < tasks_.size(); ++rank) {
    if (places_[rank]) continue;
    if (names.size() == most_listed) {
      ++more;
    } else {
      names.push_back(describe(tasks_[rank]) + (came_[rank] ? ", which came and went" : ""));
    }
  }
  if (more > 0) names.push_back(fmt::format("and {} more", more));
  return names.empty() ? "nobody" : dtrain::join(names, ", ");
}

std::vector<Peer> Lobby::peers() const {
  std::vector<Peer> peers;
  for (const auto& place : places_) {
    if (place) peers.push_back(*place);
  }
  return peers;
}

}  // namespace dtrain::cluster
