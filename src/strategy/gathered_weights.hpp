#pragma once

#include <vector>

#include "strategy/gradient_shares.hpp"
#include "strategy/shares.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Weights of which a rank keeps its part alone: brought in bucket by bucket before their layers compute, and
// given back after. All ranks pass the same layers in the same order, those without images too.
class GatheredWeights final : public backend::WeightSource {
 public:
  GatheredWeights(const RankContext& context, const Shares& shares, GradientShares& gradients);

  // The way through the layers that comes next.
  void go(config::Phase phase) { phase_ = phase; }
  // The same where this rank has nothing to compute.
  void pass(int bucket);
  void leave(int bucket);

  void need(backend::Range parameters) override { pass(shares_->bucket_of(parameters)); }
  void done(backend::Range parameters) override;

  // All of them, for whoever wants the whole state; and back.
  void bring_all();
  void give_back_all();

 private:
  struct State {
    bool started = false;
    bool here = false;
    comm::Ticket ticket = 0;
  };
  State& state(int bucket) { return states_[static_cast<std::size_t>(bucket)]; }
  bool forward() const { return phase_ == config::Phase::forward; }
  int next(int bucket) const { return forward() ? bucket - 1 : bucket + 1; }
  void start(int bucket);
  void start_next(int bucket);
  void give_back(int bucket);

  RankContext context_;
  const Shares* shares_;
  GradientShares* gradients_;
  config::Phase phase_ = config::Phase::forward;
  std::vector<State> states_;
};

}  // namespace dtrain::strategy
