#pragma once

#include <vector>

#include "strategy/shares.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Sums gradients bucket by bucket while backward goes on, of which this rank gets its part alone. With
// `gives_back`, memory of the others' parts goes as soon as they have been summed, and no more of it is there
// at a time than the largest bucket has: backward waits for room.
class GradientShares final : public backend::WeightSource {
 public:
  GradientShares(const RankContext& context, const Shares& shares, bool gives_back);

  void start(int bucket);
  void progress() { context_.communicator->progress(); }
  void finish();  // waits for all that were started

  // Before a layer's gradients are written.
  void need(backend::Range parameters) override { make_room(shares_->bucket_of(parameters)); }
  void done(backend::Range) override {}
  void make_room(int bucket);

 private:
  struct Sum {
    int bucket = 0;
    comm::Ticket ticket = 0;
  };
  void finish_oldest();

  RankContext context_;
  const Shares* shares_;
  bool gives_back_;
  std::vector<Sum> sums_;      // of this step
  std::size_t finished_ = 0;   // of those
  std::size_t in_flight_ = 0;  // floats of others' parts
};

}  // namespace dtrain::strategy
