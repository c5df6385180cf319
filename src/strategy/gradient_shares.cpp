#include "strategy/gradient_shares.hpp"

namespace dtrain::strategy {

using backend::FlatBuffer;
using backend::Range;

GradientShares::GradientShares(const RankContext& context, const Shares& shares, bool gives_back)
    : context_(context), shares_(&shares), gives_back_(gives_back) {
  sums_.reserve(static_cast<std::size_t>(shares.buckets()));
}

void GradientShares::start(int bucket) {
  const Range range = shares_->whole(bucket);
  const auto gradients = context_.replica->gradients().subspan(range.offset, range.size);
  const Deadline deadline = Deadline::in(context_.timeout);
  sums_.push_back({bucket, context_.communicator->start_reduce_scatter(gradients, deadline)});
  in_flight_ += shares_->others_size(bucket);
}

void GradientShares::make_room(int bucket) {
  const auto full = [&] {
    return finished_ < sums_.size() && in_flight_ + shares_->others_size(bucket) > shares_->largest_others();
  };
  if (!gives_back_ || !full()) return;
  const Communicating communicating(context_.clock);
  while (full()) finish_oldest();
}

void GradientShares::finish() {
  while (finished_ < sums_.size()) finish_oldest();
  sums_.clear();
  finished_ = 0;
}

void GradientShares::finish_oldest() {
  const auto [bucket, ticket] = sums_[finished_];
  context_.communicator->wait(ticket, Deadline::in(context_.timeout));
  if (gives_back_) {
    for (const Range part : shares_->others(bucket)) {
      context_.replica->release(FlatBuffer::gradients, part);
    }
  }
  in_flight_ -= shares_->others_size(bucket);
  ++finished_;
}

}  // namespace dtrain::strategy
