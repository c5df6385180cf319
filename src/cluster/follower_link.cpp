#include "cluster/follower_link.hpp"

#include "base/log.hpp"
#include "cluster/time_text.hpp"
#include "cluster/wire.hpp"

namespace dtrain::cluster {

namespace {

constexpr Seconds farewell{1.0};

}  // namespace

FollowerLink::FollowerLink(const JobConfig& config, const ChiefAddress& chief, const wire::Hello& hello)
    : timeout_(config.timeout),
      rank_(config.place.rank),
      world_(static_cast<std::size_t>(config.place.world)),
      absence_(config.timeout) {
  client_ = std::make_unique<JobClient>(chief, config.token, config.tls, static_cast<Attendant&>(*this));
  wire::ToChief message;
  *message.mutable_hello() = hello;
  client_->send(std::move(message));
}

FollowerLink::~FollowerLink() {
  pulse_.reset();
  client_.reset();
}

FollowerLink::Outcome FollowerLink::wait(const Deadline& patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, patience.at(), [&] { return outcome_.has_value(); });
  if (outcome_) return *outcome_;
  Outcome none;
  none.missing = waiting_for_;
  return none;
}

void FollowerLink::start(std::shared_ptr<LossBell> bell, Descriptor port) {
  {
    const std::lock_guard lock(mutex_);
    bell_ = std::move(bell);
    port_ = std::move(port);
    if (loss_) bell_->ring(*loss_);
  }
  absence_.begin();
  pulse_ = std::make_unique<Pulse>(pulse_interval(timeout_), [this](bool late) { beat(late); });
}

void FollowerLink::received(wire::ToMember& message) {
  heard_ns_ = now_ns();
  if (message.has_answer()) return answer(*message.mutable_answer());
  if (message.has_loss()) return lose(from_wire(message.loss()));
  if (message.has_beat()) return;
  if (message.has_waiting()) log_info("cluster: " + message.waiting().substr(0, longest_name));

  const std::lock_guard lock(mutex_);
  if (message.has_waiting()) {
    waiting_for_ = message.waiting();
  } else if (!outcome_) {
    Outcome outcome;
    for (const auto& peer : message.welcome().peers()) outcome.peers.push_back(from_wire(peer));
    if (outcome.peers.size() != world_) {
      outcome = {};
      outcome.refused = true;
      outcome.reason = message.refusal().reason();
      outcome.advice = message.refusal().advice();
    }
    outcome_ = std::move(outcome);
  }
  changed_.notify_all();
}

void FollowerLink::ended(bool refused, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!outcome_) {
      Outcome outcome;
      outcome.refused = refused;
      outcome.reason = refused ? "its token (DTRAIN_JOB_TOKEN) is not the job's"
                               : (reason.empty() ? "the chief has ended the connection" : reason);
      outcome_ = std::move(outcome);
      changed_.notify_all();
    }
    if (outcome_->peers.empty()) return;
  }
  lose(absence_.recent() ? silence_of(rank_) : Loss{0, "ended without a word"});
}

void FollowerLink::answer(wire::Answer& message) {
  Reply reply;
  {
    const std::lock_guard lock(mutex_);
    const auto asked = asked_.find(message.id());
    if (asked == asked_.end()) return;
    reply = std::move(asked->second);
    asked_.erase(asked);
  }
  Answer told = from_wire(message);
  if (told.loss) lose(*told.loss);
  reply(std::move(told));
}

void FollowerLink::lose(Loss loss) {
  if (loss.rank < 0 || static_cast<std::size_t>(loss.rank) >= world_) loss.rank = 0;
  std::map<std::uint64_t, Reply> asked;
  std::shared_ptr<LossBell> bell;
  Answer ended;
  {
    const std::lock_guard lock(mutex_);
    asked.swap(asked_);
    ended = last_answer(loss);
    bell = bell_;
  }
  if (bell && ended.loss) bell->ring(*ended.loss);
  for (const auto& [id, reply] : asked) reply(ended);
}

// Under the lock: what whoever asks is told from now on.
Answer FollowerLink::last_answer(const Loss& loss) {
  Answer answer;
  if (!loss_ && !closing_) loss_ = loss;
  answer.loss = loss_;
  if (!loss_) answer.error = job_is_over;
  return answer;
}

Loss FollowerLink::silence_of(int rank) const { return {rank, "does not answer for " + time_text(timeout_)}; }

void FollowerLink::beat(bool late) {
  if (late) heard_ns_ = now_ns();
  if (client_->idle()) {
    wire::ToChief message;
    message.mutable_beat()->set_progress(progress_);
    client_->send(std::move(message));
  }
  const bool silent = Duration(now_ns() - heard_ns_) > timeout_;
  absence_.beat();
  if (!silent) return;
  const Loss loss = silence_of(absence_.recent() ? rank_ : 0);
  fail(loss.rank, loss.reason);
  lose(loss);
}

void FollowerLink::ask(std::uint64_t id, Question question, Reply reply) {
  Answer answer;
  {
    const std::lock_guard lock(mutex_);
    answer.loss = loss_;
    if (!loss_ && closing_) answer.error = job_is_over;
    if (!loss_ && !closing_) asked_.emplace(id, reply);
  }
  if (answer.loss || !answer.error.empty()) return reply(std::move(answer));
  client_->send(to_wire(id, std::move(question)));
}

void FollowerLink::expire(std::uint64_t id, Seconds waited) {
  wire::ToChief message;
  message.mutable_expiry()->set_id(id);
  message.mutable_expiry()->set_waited_seconds(waited.count());
  client_->send(std::move(message));
}

void FollowerLink::fail(int rank, const std::string& reason) {
  client_->send(to_wire(0, Fail{rank, reason}));
}

void FollowerLink::close() {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    closing_ = true;
  }
  pulse_.reset();
  client_->close(farewell);
}

}  // namespace dtrain::cluster
