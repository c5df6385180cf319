#pragma once

#include <vector>

namespace dtrain::predict {

// How much the slowest of N is above the mean, where each is drawn on its own from one distribution. Known
// from a sample up to as many draws as leave its upper tail some values; beyond that the tail goes on as an
// exponential one does, with the mean excess of the sample's upper tenth, which is what a Gumbel law says of
// a maximum. Without a sample that varies it is the normal distribution's, in deviations.
class ExpectedMaximum {
 public:
  explicit ExpectedMaximum(std::vector<double> sample);  // sorted; mean of about 1

  double above_mean(int n) const;
  int known_up_to() const { return known_up_to_; }  // draws; 0 = there is no sample

 private:
  double of_sample(int n) const;

  std::vector<double> sample_;
  double mean_ = 0.0;
  double tail_ = 0.0;  // mean excess over the ninth tenth
  int known_up_to_ = 0;
};

}  // namespace dtrain::predict
