#pragma once

#include <condition_variable>
#include <map>
#include <mutex>

#include "cluster/absence.hpp"
#include "cluster/board_member.hpp"
#include "cluster/job_client.hpp"
#include "cluster/pulse.hpp"
#include "cluster/sockets.hpp"

namespace dtrain::cluster {

// The way of a member to the board over its stream to the chief.
class FollowerLink : public Link, private Attendant {
 public:
  struct Outcome {
    std::vector<Peer> peers;  // not empty: joined
    bool refused = false;     // for good
    std::string reason;
    std::string advice;
    std::string missing;  // what the chief said last of those it waits for, when patience was over
  };

  FollowerLink(const JobConfig& config, const ChiefAddress& chief, const wire::Hello& hello);
  ~FollowerLink() override;

  // Waits until all have come, or this process is not let in, or the stream or patience ends.
  Outcome wait(const Deadline& patience);
  // From now on silence is a loss. `port` is this task's own, for as long as the job lives.
  void start(std::shared_ptr<LossBell> bell, Descriptor port);

  void ask(std::uint64_t id, Question question, Reply reply) override;
  void expire(std::uint64_t id, Seconds waited) override;
  void announce(Progress progress) override { progress_ = progress; }
  Seconds progress_age() const override { return 1.5 * pulse_interval(timeout_); }
  void fail(int rank, const std::string& reason) override;
  void close() override;

 private:
  void received(wire::ToMember& message) override;
  void ended(bool refused, const std::string& reason) override;
  void beat(bool late);
  void answer(wire::Answer& message);
  void lose(Loss loss);
  Loss silence_of(int rank) const;
  Answer last_answer(const Loss& loss);

  const Seconds timeout_;
  const int rank_;
  const std::size_t world_;
  Absence absence_;
  std::atomic<Progress> progress_ = 0;
  std::atomic<std::int64_t> heard_ns_ = now_ns();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Outcome> outcome_;
  std::string waiting_for_;
  std::map<std::uint64_t, Reply> asked_;
  std::optional<Loss> loss_;
  std::shared_ptr<LossBell> bell_;
  bool closing_ = false;
  Descriptor port_;
  std::unique_ptr<JobClient> client_;
  std::unique_ptr<Pulse> pulse_;
};

}  // namespace dtrain::cluster
