#include "cluster/board_member.hpp"

#include <limits>
#include <thread>

#include "base/error.hpp"

namespace dtrain::cluster {

namespace {

constexpr int clock_readings = 16;
constexpr std::chrono::milliseconds progress_poll{10};

// Where the thread that asked waits for its answer.
struct Slot {
  std::mutex mutex;
  std::condition_variable filled;
  std::optional<Answer> answer;

  void fill(Answer given) {
    {
      const std::lock_guard lock(mutex);
      answer = std::move(given);
    }
    filled.notify_all();
  }
  bool wait(const Deadline* deadline) {
    std::unique_lock lock(mutex);
    if (deadline != nullptr)
      return filled.wait_until(lock, deadline->at(), [&] { return answer.has_value(); });
    filled.wait(lock, [&] { return answer.has_value(); });
    return true;
  }
};

constexpr const char* report_it = "this is an error in the program: please report it";

// What the network would not take. The board checks again what comes from others.
void require_size(const std::string& name, std::string_view value) {
  if (name.size() <= longest_name && value.size() <= largest_value) return;
  throw run_error(fmt::format("the value '{}' of {} bytes is too large", name.substr(0, 100), value.size()),
                  report_it);
}

}  // namespace

BoardMember::BoardMember(int rank, std::vector<Peer> peers, std::shared_ptr<LossBell> bell,
                         std::unique_ptr<Link> link)
    : rank_(rank), peers_(std::move(peers)), bell_(std::move(bell)), link_(std::move(link)) {}

BoardMember::~BoardMember() {
  if (!left_ && !bell_->loss()) fail(rank_, "has gone before the job was over");
  link_->close();
}

Answer BoardMember::ask(Question question, const Deadline* deadline) {
  const auto slot = std::make_shared<Slot>();
  const std::uint64_t id = next_id_++;
  link_->ask(id, std::move(question), [slot](Answer answer) { slot->fill(std::move(answer)); });
  if (!slot->wait(deadline)) {
    link_->expire(id, deadline->allowed());
    slot->wait(nullptr);
  }
  return std::move(*slot->answer);
}

Answer BoardMember::ask_or_throw(Question question, const Deadline* deadline) {
  check();
  Answer answer = ask(std::move(question), deadline);
  if (answer.loss) {
    bell_->ring(*answer.loss);
    throw_ended(*bell_->loss());
  }
  if (!answer.error.empty()) throw run_error(answer.error, report_it);
  return answer;
}

void BoardMember::throw_ended(const Loss& loss) const {
  const Peer& peer = peers_.at(static_cast<std::size_t>(loss.rank));
  throw JobEnded(fmt::format("{} {}", peer.describe(), loss.reason),
                 fmt::format("look at what that process wrote last (rank {}, process {} on {})", peer.rank,
                             peer.process, peer.host));
}

void BoardMember::check() const {
  if (const auto loss = bell_->loss()) throw_ended(*loss);
}

void BoardMember::set(const std::string& key, std::string_view value) {
  require_size(key, value);
  ask_or_throw(Set{key, std::string(value)});
}

std::string BoardMember::get(const std::string& key, const Deadline& deadline) {
  return std::move(ask_or_throw(Get{key}, &deadline).values.at(0));
}

std::optional<std::string> BoardMember::try_get(const std::string& key) {
  Answer answer = ask_or_throw(TryGet{key});
  if (answer.values.empty()) return std::nullopt;
  return std::move(answer.values.front());
}

void BoardMember::erase(const std::string& key) { ask_or_throw(Erase{key}); }

std::vector<std::string> BoardMember::all_gather(const std::string& name, std::string_view mine,
                                                 const std::vector<int>& ranks, const Deadline& deadline) {
  require_size(name, mine);
  return ask_or_throw(Gather{name, std::string(mine), ranks}, &deadline).values;
}

std::optional<int> BoardMember::first_behind(Progress progress, const std::vector<int>& ranks) {
  const auto fresh = Deadline::in(link_->progress_age());
  while (true) {
    const bool last = fresh.passed();
    const Answer answer = ask_or_throw(FirstBehind{progress, ranks});
    if (!answer.rank || last) return answer.rank;
    std::this_thread::sleep_for(progress_poll);
  }
}

void BoardMember::fail(int rank, const std::string& reason) { link_->fail(rank, reason); }

Member::ClockOffset BoardMember::clock_offset() {
  if (peers_.front().boot == peers_.at(static_cast<std::size_t>(rank_)).boot) return {};
  ClockOffset best{0, std::numeric_limits<std::int64_t>::max()};
  for (int i = 0; i < clock_readings; ++i) {
    const std::int64_t sent = now_ns();
    const Answer answer = ask_or_throw(ReadClock{});
    const std::int64_t half = (now_ns() - sent) / 2;
    if (half < best.error_ns) best = {answer.clock_ns - sent - half, half};
  }
  return best;
}

void BoardMember::leave(const Deadline& deadline) {
  if (!left_) ask(Leave{}, &deadline);
  left_ = true;
  link_->close();
}

}  // namespace dtrain::cluster
