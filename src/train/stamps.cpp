#include "train/stamps.hpp"

namespace dtrain::train {

Stamps::Stamps(backend::Replica& replica, bool collective, int micro_steps)
    : replica_(&replica), collective_(collective) {
  marks_.reserve(3 * static_cast<std::size_t>(micro_steps) + 3);
  sink_marks_.reserve(2 * replica.buckets().size());
}

void Stamps::begin(backend::GradientSink* strategy) {
  strategy_ = strategy;
  marks_.clear();
  sink_marks_.clear();
  mark();
}

void Stamps::communicated() {
  if (collective_) mark();
}

void Stamps::bucket_ready(int bucket, backend::DeviceToken ready) {
  if (!collective_) return strategy_->bucket_ready(bucket, ready);
  const bool first = sink_marks_.empty();
  sink_marks_.push_back(replica_->mark());
  if (first && before_communication_) before_communication_();
  strategy_->bucket_ready(bucket, ready);
  sink_marks_.push_back(replica_->mark());
}

void Stamps::resolve(measure::StepRecord& record) const {
  const auto at = [&](std::size_t index) { return replica_->time_ns(marks_[index]); };
  const std::size_t tail = collective_ ? 2 : 1;  // communicated, end
  record.begin_ns = at(0);
  std::int64_t before = record.begin_ns;
  for (std::size_t i = 1; i + tail < marks_.size(); i += 3) {
    const std::int64_t input = at(i);
    const std::int64_t forward = at(i + 1);
    const std::int64_t backward = at(i + 2);
    record.input_ns += input - before;
    record.forward_ns += forward - input;
    record.backward_ns += backward - forward;
    before = backward;
  }
  for (std::size_t i = 0; i + 1 < sink_marks_.size(); i += 2) {
    record.communication_in_backward_ns +=
        replica_->time_ns(sink_marks_[i + 1]) - replica_->time_ns(sink_marks_[i]);
  }
  record.backward_ns -= record.communication_in_backward_ns;
  record.arrival_ns = collective_ ? before : 0;
  record.communicated_ns = collective_ ? at(marks_.size() - 2) : before;
  record.end_ns = at(marks_.size() - 1);
  record.update_ns = record.end_ns - record.communicated_ns;
}

}  // namespace dtrain::train
