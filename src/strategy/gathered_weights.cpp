#include "strategy/gathered_weights.hpp"

namespace dtrain::strategy {

using backend::FlatBuffer;
using backend::Range;

GatheredWeights::GatheredWeights(const RankContext& context, const Shares& shares, GradientShares& gradients)
    : context_(context),
      shares_(&shares),
      gradients_(&gradients),
      states_(static_cast<std::size_t>(shares.buckets())) {}

void GatheredWeights::pass(int bucket) {
  State& wanted = state(bucket);
  if (!forward()) gradients_->make_room(bucket);
  if (wanted.here) return;
  const Communicating communicating(context_.clock);
  start(bucket);
  start_next(bucket);
  // Others may still be reading this rank's part, which stays as it is until all have summed gradients.
  context_.communicator->wait_for_own(wanted.ticket, Deadline::in(context_.timeout));
  wanted.here = true;
}

void GatheredWeights::start(int bucket) {
  State& wanted = state(bucket);
  if (wanted.started) return;
  const Range range = shares_->whole(bucket);
  wanted.started = true;
  wanted.ticket = context_.communicator->start_all_gather(
      context_.replica->weights().subspan(range.offset, range.size), Deadline::in(context_.timeout));
}

// Ahead of its layers, where it takes no more memory than the largest bucket does.
void GatheredWeights::start_next(int bucket) {
  const int coming = next(bucket);
  if (coming < 0 || coming >= shares_->buckets()) return;
  if (shares_->others_size(bucket) + shares_->others_size(coming) <= shares_->largest_others()) start(coming);
}

void GatheredWeights::done(Range parameters) {
  const int bucket = shares_->bucket_of(parameters);
  const Range range = shares_->whole(bucket);
  const bool last = forward() ? parameters.offset + parameters.size == range.offset + range.size
                              : parameters.offset == range.offset;
  if (last) leave(bucket);
}

void GatheredWeights::leave(int bucket) {
  if (forward() && bucket == 0) return;  // backward begins with it
  give_back(bucket);
}

void GatheredWeights::give_back(int bucket) {
  state(bucket) = {};
  for (const Range part : shares_->others(bucket)) context_.replica->release(FlatBuffer::weights, part);
}

void GatheredWeights::bring_all() {
  for (int bucket = 0; bucket < shares_->buckets(); ++bucket) start(bucket);
  for (const State& wanted : states_) {
    context_.communicator->wait(wanted.ticket, Deadline::in(context_.timeout));
  }
}

void GatheredWeights::give_back_all() {
  for (int bucket = 0; bucket < shares_->buckets(); ++bucket) give_back(bucket);
}

}  // namespace dtrain::strategy
