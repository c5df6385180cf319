#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/member.hpp"

namespace dtrain::cluster {

// What a process says of itself to be let in.
struct Hello {
  std::uint32_t protocol = 0;
  std::string build;
  int world = 0;
  Peer peer;
};

// Who has come, until all have. Tells nobody of it.
class Lobby {
 public:
  // `tasks` by rank; the chief is there.
  Lobby(std::vector<config::Task> tasks, std::uint32_t protocol, std::string build, const Peer& chief);

  // Why this one is not let in; nothing where it is.
  std::optional<std::string> admit(const Hello& hello);
  void depart(int rank);  // before all had come

  int world() const { return static_cast<int>(tasks_.size()); }
  int present() const;
  bool complete() const { return present() == world(); }
  // "worker 1 (10.0.0.2:2222), worker 3 (which came and went)"; "nobody".
  std::string missing() const;
  std::vector<Peer> peers() const;  // when complete

  // What was refused so far, for whoever waits in vain.
  const std::vector<std::string>& refusals() const { return refusals_; }

 private:
  std::optional<std::string> why_not(const Hello& hello) const;

  const std::vector<config::Task> tasks_;
  const std::uint32_t protocol_;
  const std::string build_;
  std::vector<std::optional<Peer>> places_;
  std::vector<bool> came_;
  std::vector<std::string> refusals_;
};

// "worker 1 (10.0.0.2:2222)"
std::string describe(const config::Task& task);

}  // namespace dtrain::cluster
