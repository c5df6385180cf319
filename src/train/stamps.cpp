#include "train/stamps.hpp"

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
    current_->phases.reserve(5);
    current_->buckets.reserve(2 * replica_->buckets().size());
  }
  step_.push_back(current_);
}

void Stamps::input_ready() {
  current_->phases.clear();
  current_->buckets.clear();
  current_->arrival.reset();
  mark();
}

void Stamps::communicated() {
  if (collective_) mark();
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

void Stamps::resolve(measure::StepRecord& record, bool communicated) const {
  const auto at = [&](backend::Mark mark) { return replica_->time_ns(mark); };
  record.begin_ns = at(begin_);
  std::int64_t before = record.begin_ns;
  for (const Marks* marks : step_) {
    const std::int64_t input = at(marks->phases[0]);
    const std::int64_t forward = at(marks->phases[1]);
    const std::int64_t backward = at(marks->phases[2]);
    record.input_ns += input - before;
    record.forward_ns += forward - input;
    record.backward_ns += backward - forward;
    before = backward;
  }
  const Marks& last = *step_.back();
  for (std::size_t i = 0; i + 1 < last.buckets.size(); i += 2) {
    record.communication_in_backward_ns += at(last.buckets[i + 1]) - at(last.buckets[i]);
  }
  record.backward_ns -= record.communication_in_backward_ns;
  record.end_ns = at(last.phases.back());
  const auto arrival_after = [&](std::int64_t work) {
    const std::int64_t arrival = last.arrival ? at(*last.arrival) : work;
    record.communication_in_backward_ns += arrival - work;
    return arrival;
  };
  if (synchronizes_last_) {
    const std::int64_t updated = at(last.phases[3]);
    record.update_ns = updated - before;
    const std::int64_t arrival = arrival_after(updated);
    record.arrival_ns = communicated ? arrival : 0;
    record.communicated_ns = record.end_ns;
    return;
  }
  record.arrival_ns = collective_ ? arrival_after(before) : 0;
  record.communicated_ns = collective_ ? at(last.phases[3]) : before;
  record.update_ns = record.end_ns - record.communicated_ns;
}

int Stamps::count() const {
  std::size_t marks = 1;
  for (const Marks* micro_step : step_) {
    marks += micro_step->phases.size() + micro_step->buckets.size() + (micro_step->arrival ? 1 : 0);
  }
  return static_cast<int>(marks);
}

}  // namespace dtrain::train
