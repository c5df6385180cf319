#pragma once

#include <vector>

#include "predict/setup.hpp"

namespace dtrain::predict {

// A measured N as the model sees it: one value for each part.
struct Observation {
  Placement placement;
  double replica_images = 0.0;
  Parts parts;
  double spread = 0.0;  // standard error of the computation, as a share of it
};

// Seconds of a step that a replica computes.
//
// Replicas that share places (cores) take as many times as long as there are for each place, as measured
// where some did. Without sharing it is, under weak scaling, a function of how many places of a host are in
// use, because replicas share its memory: between measured ones a straight line, beyond them the last line if
// it rises by more than twice its error, and the same from the last place on. Under strong scaling it is a
// fixed part and a part for every image.
class Computation {
 public:
  Computation(const Setup& setup, const std::vector<Observation>& observations);

  double seconds(const Setup& setup, const Placement& placement, double replica_images) const;
  double backward_share() const { return backward_share_; }
  double fixed() const { return fixed_; }  // seconds that do not shrink with the images; strong scaling only

 private:
  struct Used {
    double places = 0.0;
    double seconds = 0.0;
    double weight = 0.0;
    double error = 0.0;
  };
  void fit_use(const Setup& setup, const std::vector<Observation>& observations);
  double by_use(double places) const;
  double without_load(const Setup& setup, const Placement& placement, double replica_images) const;

  std::vector<Used> used_;  // ascending in places
  double shared_ = 0.0;     // seconds / load where places were shared; 0 = nowhere
  double slope_ = 0.0;      // seconds for another place in use, beyond what was measured
  double fixed_ = 0.0;      // strong scaling: seconds
  double an_image_ = 0.0;   // strong scaling: seconds
  double backward_share_ = 0.0;
};

}  // namespace dtrain::predict
