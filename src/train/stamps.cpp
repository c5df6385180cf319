#include "train/stamps.hpp"

#include <algorithm>
#include <stdexcept>

namespace dtrain::train {

Stamps::Stamps(backend::Replica& replica, bool collective, int micro_steps)
    : replica_(&replica), collective_(collective) {
  step_.reserve(static_cast<std::size_t>(micro_steps));
}

void Stamps::begin(backend::GradientSink* strategy) {
  strategy_ = strategy;
  step_.clear();
  begin_ = replica_->mark();
}

void Stamps::micro_step(const Kind& kind) {
  auto [entry, added] = kinds_.try_emplace(kind);
  current_ = &entry->second;
  if (added) {
    current_->turns.reserve(16);
    current_->buckets.reserve(2 * replica_->buckets().size());
  }
  step_.push_back(current_);
}

void Stamps::input_ready() {
  current_->turns.clear();
  current_->buckets.clear();
  current_->arrival.reset();
  current_->end.reset();
  turn(fused_ ? Part::fused : Part::forward);
}

void Stamps::communicated() {
  if (collective_) turn(Part::update);
}

config::Phase Stamps::enter(config::Phase phase) {
  const bool outside = current_ == nullptr || current_->turns.empty() || current_->end.has_value();
  if (outside || current_->turns.back().part == Part::wait) return config::Phase::communication;
  const Part before = current_->turns.back().part;
  switch (phase) {
    case config::Phase::input:
      throw std::logic_error("input is over when a strategy begins");
    case config::Phase::forward:
      turn(Part::forward);
      break;
    case config::Phase::backward:
      turn(Part::backward);
      break;
    case config::Phase::communication:
      turn(Part::communication);
      break;
    case config::Phase::update:
      turn(Part::update);
      break;
  }
  switch (before) {
    case Part::forward:
    case Part::fused:
      return config::Phase::forward;
    case Part::backward:
      return config::Phase::backward;
    case Part::update:
      return config::Phase::update;
    case Part::communication:
    case Part::wait:
      break;
  }
  return config::Phase::communication;
}

void Stamps::bucket_ready(int bucket, backend::DeviceToken ready) {
  const bool starts_a_collective = collective_ && !synchronizes_last_;
  if (!starts_a_collective) return strategy_->bucket_ready(bucket, ready);
  if (!overlap_) {
    held_.emplace_back(bucket, ready);
    return;
  }
  const bool first = current_->buckets.empty();
  current_->buckets.push_back(replica_->mark());
  if (first && before_communication_) before_communication_();
  strategy_->bucket_ready(bucket, ready);
  current_->buckets.push_back(replica_->mark());
}

void Stamps::send_held() {
  if (held_.empty()) return;
  if (before_communication_) before_communication_();
  for (const auto& [bucket, ready] : held_) strategy_->bucket_ready(bucket, ready);
  held_.clear();
  arrived();
}

void Stamps::add(measure::StepRecord& record, Part part, std::int64_t duration_ns) {
  switch (part) {
    case Part::forward:
      record.forward_ns += duration_ns;
      break;
    case Part::backward:
      record.backward_ns += duration_ns;
      break;
    case Part::communication:
      record.communication_in_backward_ns += duration_ns;
      break;
    case Part::update:
      record.update_ns += duration_ns;
      break;
    case Part::fused:
      record.fused_ns += duration_ns;
      break;
    case Part::wait:  // from arrival to communicated
      break;
  }
}

void Stamps::add_turns(measure::StepRecord& record, const Marks& marks) const {
  for (std::size_t i = 0; i < marks.turns.size(); ++i) {
    const bool last = i + 1 == marks.turns.size();
    if (last && !marks.end) break;
    const std::int64_t begin = replica_->time_ns(marks.turns[i].begin);
    const std::int64_t end = replica_->time_ns(last ? *marks.end : marks.turns[i + 1].begin);
    add(record, marks.turns[i].part, end - begin);
  }
}

void Stamps::resolve(measure::StepRecord& record, bool communicated) const {
  const auto at = [&](backend::Mark mark) { return replica_->time_ns(mark); };
  record.begin_ns = at(begin_);
  std::int64_t before = record.begin_ns;
  for (const Marks* marks : step_) {
    record.input_ns += at(marks->turns.front().begin) - before;
    add_turns(record, *marks);
    before = at(marks->turns.back().begin);
  }
  const Marks& last = *step_.back();
  record.end_ns = at(*last.end);
  std::int64_t in_backward = 0;
  for (std::size_t i = 0; i + 1 < last.buckets.size(); i += 2) {
    in_backward += at(last.buckets[i + 1]) - at(last.buckets[i]);
  }
  record.backward_ns -= in_backward;
  record.communication_in_backward_ns += in_backward;
  resolve_meeting(record, last, communicated);
}

// Where the ranks met, and how long each waited there.
void Stamps::resolve_meeting(measure::StepRecord& record, const Marks& marks, bool communicated) const {
  const auto at = [&](backend::Mark mark) { return replica_->time_ns(mark); };
  const auto wait = std::ranges::find(marks.turns, Part::wait, &Turn::part);
  if (wait == marks.turns.end()) {
    record.communicated_ns = record.end_ns - record.update_ns;
    return;
  }
  const std::int64_t work = at(wait->begin);
  const auto after = std::next(wait);
  record.communicated_ns = after == marks.turns.end() ? record.end_ns : at(after->begin);
  const std::int64_t arrival = marks.arrival ? at(*marks.arrival) : work;
  record.communication_in_backward_ns += arrival - work;
  if (!arrives_) {
    record.communication_in_backward_ns += record.communicated_ns - arrival;
  } else if (communicated || !synchronizes_last_) {
    record.arrival_ns = arrival;
  }
}

int Stamps::count() const {
  std::size_t marks = 1;
  for (const Marks* micro_step : step_) {
    marks += micro_step->turns.size() + micro_step->buckets.size() + (micro_step->arrival ? 1 : 0) +
             (micro_step->end ? 1 : 0);
  }
  return static_cast<int>(marks);
}

}  // namespace dtrain::train
