#include "cluster/board.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cluster/time_text.hpp"

namespace dtrain::cluster {

class Board::Outcome {
 public:
  void add(Waiter waiter, const Answer& answer) {
    calls_.emplace_back([reply = std::move(waiter.reply), answer] { reply(answer); });
  }
  void add(std::function<void(const Loss&)> observer, const Loss& loss) {
    calls_.emplace_back([observer = std::move(observer), loss] { observer(loss); });
  }
  void call() const {
    for (const auto& call : calls_) call();
  }

 private:
  std::vector<std::function<void()>> calls_;
};

namespace {

Answer wrong(std::string error) {
  Answer answer;
  answer.error = std::move(error);
  return answer;
}

Answer one(std::string value) {
  Answer answer;
  answer.values.push_back(std::move(value));
  return answer;
}

Answer ended(const Loss& loss) {
  Answer answer;
  answer.loss = loss;
  return answer;
}

// Names show up in errors, so they are cut there.
std::string shown(const std::string& name) { return name.substr(0, 100); }

template <class Waiters>
auto find_waiter(Waiters& waiters, int rank, std::uint64_t id) {
  return std::find_if(waiters.begin(), waiters.end(),
                      [&](const auto& waiter) { return waiter.rank == rank && waiter.id == id; });
}

}  // namespace

Board::Board(std::vector<Peer> peers) : peers_(std::move(peers)), progress_(peers_.size()) {}

void Board::ask(int rank, std::uint64_t id, Question question, Reply reply) {
  Outcome outcome;
  {
    const std::lock_guard lock(mutex_);
    Waiter waiter{rank, id, std::move(reply)};
    const bool leaves = std::holds_alternative<Leave>(question);
    if (loss_ && !leaves) {
      outcome.add(std::move(waiter), ended(*loss_));
    } else if (over_ && !leaves) {
      outcome.add(std::move(waiter), wrong(job_is_over));
    } else {
      std::visit([&](auto& asked) { answer(asked, std::move(waiter), outcome); }, question);
    }
  }
  outcome.call();
}

void Board::answer(Set& question, Waiter waiter, Outcome& outcome) {
  if (question.key.size() > longest_name || question.value.size() > largest_value) {
    return outcome.add(std::move(waiter),
                       wrong(fmt::format("the value '{}' of {} is too large", shown(question.key),
                                         format_bytes(double(question.value.size())))));
  }
  if (values_.contains(question.key)) {
    return outcome.add(std::move(waiter),
                       wrong(fmt::format("the value '{}' is set already", shown(question.key))));
  }
  if (!hold(question.key.size() + question.value.size())) {
    return outcome.add(std::move(waiter), wrong("the job holds too many values"));
  }
  if (const auto waiting = gets_.find(question.key); waiting != gets_.end()) {
    for (auto& get : waiting->second) outcome.add(std::move(get), one(question.value));
    gets_.erase(waiting);
  }
  values_.emplace(std::move(question.key), std::move(question.value));
  outcome.add(std::move(waiter), {});
}

void Board::answer(Get& question, Waiter waiter, Outcome& outcome) {
  const auto found = values_.find(question.key);
  if (found != values_.end()) return outcome.add(std::move(waiter), one(found->second));
  if (question.key.size() > longest_name) return outcome.add(std::move(waiter), wrong("a key is too long"));
  gets_[question.key].push_back(std::move(waiter));
}

void Board::answer(TryGet& question, Waiter waiter, Outcome& outcome) {
  const auto found = values_.find(question.key);
  outcome.add(std::move(waiter), found == values_.end() ? Answer() : one(found->second));
}

void Board::answer(Erase& question, Waiter waiter, Outcome& outcome) {
  if (const auto found = values_.find(question.key); found != values_.end()) {
    held_ -= found->first.size() + found->second.size();
    values_.erase(found);
  }
  outcome.add(std::move(waiter), {});
}

void Board::answer(Gather& question, Waiter waiter, Outcome& outcome) {
  if (!known(question.ranks, waiter.rank) || question.name.size() > longest_name) {
    return outcome.add(std::move(waiter), wrong(fmt::format("'{}' is asked for with ranks that cannot meet",
                                                            shown(question.name))));
  }
  auto named = names_.find(question.name);
  if (named == names_.end()) {
    if (!hold(question.name.size() + peers_.size() * sizeof(std::uint64_t))) {
      return outcome.add(std::move(waiter), wrong("the job holds too many names"));
    }
    named = names_.emplace(question.name, Name{std::vector<std::uint64_t>(peers_.size()), {}}).first;
  }
  Name& name = named->second;
  const std::uint64_t visit = name.visits[static_cast<std::size_t>(waiter.rank)]++;
  Meeting& meeting = name.open[visit];
  if (meeting.ranks.empty()) meeting.ranks = question.ranks;
  if (meeting.ranks != question.ranks) {
    const int rank = waiter.rank;
    meeting.waiters.push_back(std::move(waiter));
    return end({rank, fmt::format("came to '{}' to meet other ranks than those that wait there",
                                  shown(question.name))},
               outcome);
  }
  if (!hold(question.value.size())) return end({waiter.rank, "brought too much to hold"}, outcome);
  meeting.values.emplace(waiter.rank, std::move(question.value));
  meeting.waiters.push_back(std::move(waiter));
  if (meeting.values.size() < meeting.ranks.size()) return;

  Answer all;
  std::size_t bytes = 0;
  for (auto& [rank, value] : meeting.values) {
    bytes += value.size();
    all.values.push_back(std::move(value));
  }
  held_ -= bytes;
  if (bytes > largest_value) {
    all = wrong(fmt::format("'{}' gathers {}, which is too much", shown(question.name),
                            format_bytes(static_cast<double>(bytes))));
  }
  for (auto& waiting : meeting.waiters) outcome.add(std::move(waiting), all);
  name.open.erase(visit);
}

void Board::answer(FirstBehind& question, Waiter waiter, Outcome& outcome) {
  Answer answer;
  for (const int rank : question.ranks) {
    if (rank < 0 || static_cast<std::size_t>(rank) >= peers_.size()) continue;
    if (progress_[static_cast<std::size_t>(rank)] >= question.progress) continue;
    answer.rank = std::min(answer.rank.value_or(rank), rank);
  }
  outcome.add(std::move(waiter), answer);
}

void Board::answer(Fail& question, Waiter waiter, Outcome& outcome) {
  const bool possible = question.rank >= 0 && static_cast<std::size_t>(question.rank) < peers_.size();
  end({possible ? question.rank : waiter.rank, question.reason}, outcome);
  outcome.add(std::move(waiter), {});
}

void Board::answer(Leave&, Waiter waiter, Outcome& outcome) {
  left_.insert(waiter.rank);
  if (loss_ || over_) return outcome.add(std::move(waiter), {});
  leaving_.push_back(std::move(waiter));
  if (left_.size() < peers_.size()) return;
  over_ = true;
  release(wrong(job_is_over), outcome);
}

void Board::answer(ReadClock&, Waiter waiter, Outcome& outcome) {
  Answer answer;
  answer.clock_ns = now_ns();
  outcome.add(std::move(waiter), answer);
}

void Board::expire(int rank, std::uint64_t id, Seconds waited) {
  Outcome outcome;
  {
    const std::lock_guard lock(mutex_);
    if (const auto leaving = find_waiter(leaving_, rank, id); leaving != leaving_.end()) {
      outcome.add(std::move(*leaving), {});
      leaving_.erase(leaving);
    } else if (auto loss = loss_of_expiry(rank, id, waited)) {
      end(std::move(*loss), outcome);
    }
  }
  outcome.call();
}

std::optional<Loss> Board::loss_of_expiry(int rank, std::uint64_t id, Seconds waited) const {
  const std::string time = time_text(waited);
  for (const auto& [key, waiters] : gets_) {
    if (find_waiter(waiters, rank, id) == waiters.end()) continue;
    return Loss{rank, fmt::format("waited {} for the value '{}', which nobody has set", time, shown(key))};
  }
  for (const auto& [text, name] : names_) {
    for (const auto& [visit, meeting] : name.open) {
      if (find_waiter(meeting.waiters, rank, id) == meeting.waiters.end()) continue;
      const auto missing = std::find_if(meeting.ranks.begin(), meeting.ranks.end(),
                                        [&](int other) { return !meeting.values.contains(other); });
      return Loss{*missing, fmt::format("did not come to '{}' within {}", shown(text), time)};
    }
  }
  return std::nullopt;
}

void Board::announce(int rank, Progress progress) { progress_[static_cast<std::size_t>(rank)] = progress; }

void Board::fail(int rank, const std::string& reason) {
  Outcome outcome;
  {
    const std::lock_guard lock(mutex_);
    end({rank, reason}, outcome);
  }
  outcome.call();
}

void Board::gone(int rank, const std::string& reason) {
  Outcome outcome;
  {
    const std::lock_guard lock(mutex_);
    if (!left_.contains(rank)) end({rank, reason}, outcome);
  }
  outcome.call();
}

void Board::end(Loss loss, Outcome& outcome) {
  if (loss_ || over_) return;
  loss_ = std::move(loss);
  for (auto& observer : observers_) outcome.add(std::move(observer), *loss_);
  observers_.clear();
  release(ended(*loss_), outcome);
}

void Board::release(const Answer& answer, Outcome& outcome) {
  for (auto& [key, waiters] : gets_) {
    for (auto& waiter : waiters) outcome.add(std::move(waiter), answer);
  }
  gets_.clear();
  for (auto& [text, name] : names_) {
    for (auto& [visit, meeting] : name.open) {
      for (auto& waiter : meeting.waiters) outcome.add(std::move(waiter), answer);
    }
    name.open.clear();
  }
  for (auto& waiter : leaving_) outcome.add(std::move(waiter), {});
  leaving_.clear();
}

std::optional<Loss> Board::loss() const {
  const std::lock_guard lock(mutex_);
  return loss_;
}

void Board::on_loss(std::function<void(const Loss&)> observer) {
  Outcome outcome;
  {
    const std::lock_guard lock(mutex_);
    if (loss_) {
      outcome.add(std::move(observer), *loss_);
    } else {
      observers_.push_back(std::move(observer));
    }
  }
  outcome.call();
}

bool Board::known(const std::vector<int>& ranks, int asker) const {
  return !ranks.empty() && ranks.size() <= peers_.size() && ranks.front() >= 0 &&
         static_cast<std::size_t>(ranks.back()) < peers_.size() &&
         std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end() &&
         std::binary_search(ranks.begin(), ranks.end(), asker);
}

bool Board::hold(std::size_t bytes) {
  if (held_ + bytes > most_held) return false;
  held_ += bytes;
  return true;
}

}  // namespace dtrain::cluster
