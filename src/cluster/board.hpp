#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/question.hpp"

namespace dtrain::cluster {

// What the members of a job share: values, meetings, how far each has come, the first loss. It knows neither
// network nor time: whoever serves it tells when somebody's patience is over (expire) or somebody is gone
// (fail). Replies and the observer are called once each, by the thread whose call brought them about, without
// a lock.
class Board {
 public:
  explicit Board(std::vector<Peer> peers);

  const std::vector<Peer>& peers() const { return peers_; }

  // `id` is the asker's own, for expire. Never waits.
  void ask(int rank, std::uint64_t id, Question question, Reply reply);
  // The asker has waited so long and will not any longer: ends the job, naming whom it waited for. Nothing if
  // the question is answered. A member that waits to leave is let go.
  void expire(int rank, std::uint64_t id, Seconds waited);

  void announce(int rank, Progress progress);
  // Ends the job, if nothing has ended it.
  void fail(int rank, const std::string& reason);
  // The same, where a member that has come to leave may go.
  void gone(int rank, const std::string& reason);
  std::optional<Loss> loss() const;
  // Called once with the first loss; at once, if there was one.
  void on_loss(std::function<void(const Loss&)> observer);

 private:
  struct Waiter {
    int rank = 0;
    std::uint64_t id = 0;
    Reply reply;
  };
  struct Meeting {
    std::vector<int> ranks;
    std::map<int, std::string> values;
    std::vector<Waiter> waiters;
  };
  struct Name {
    std::vector<std::uint64_t> visits;  // by rank: meetings that it has come to
    std::map<std::uint64_t, Meeting> open;
  };
  // What is to be called when the lock is gone.
  class Outcome;

  void answer(Set& question, Waiter waiter, Outcome& outcome);
  void answer(Get& question, Waiter waiter, Outcome& outcome);
  void answer(TryGet& question, Waiter waiter, Outcome& outcome);
  void answer(Erase& question, Waiter waiter, Outcome& outcome);
  void answer(Gather& question, Waiter waiter, Outcome& outcome);
  void answer(FirstBehind& question, Waiter waiter, Outcome& outcome);
  void answer(Fail& question, Waiter waiter, Outcome& outcome);
  void answer(Leave& question, Waiter waiter, Outcome& outcome);
  void answer(ReadClock& question, Waiter waiter, Outcome& outcome);

  void end(Loss loss, Outcome& outcome);
  // Answers all who wait.
  void release(const Answer& answer, Outcome& outcome);
  std::optional<Loss> loss_of_expiry(int rank, std::uint64_t id, Seconds waited) const;
  bool known(const std::vector<int>& ranks, int asker) const;
  // Whether so many more bytes may be held.
  bool hold(std::size_t bytes);

  const std::vector<Peer> peers_;
  std::vector<std::atomic<Progress>> progress_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Waiter>> gets_;
  std::map<std::string, Name> names_;
  std::vector<Waiter> leaving_;
  std::set<int> left_;
  std::size_t held_ = 0;
  bool over_ = false;
  std::optional<Loss> loss_;
  std::vector<std::function<void(const Loss&)>> observers_;
};

}  // namespace dtrain::cluster
