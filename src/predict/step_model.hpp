#pragma once

#include <vector>

#include "predict/communication.hpp"
#include "predict/computation.hpp"
#include "predict/expected_maximum.hpp"

namespace dtrain::predict {

// What a step of N replicas takes: computation + waiting for the last of them + communication that nothing
// hides.
//
// Waiting is computation x width x (what the largest of N draws is above their mean); the draws are steps of
// one rank alone, and the width is what was measured of waiting at every N against that. Where replicas of
// one process share places, one that waits leaves its place to those that it waits for, so that waiting does
// not grow with N: it is the share of computation that it was where places were shared.
class StepModel {
 public:
  StepModel(const Setup& setup, const Law& law, const ExpectedMaximum& maximum,
            const std::vector<Observation>& observations);

  // As the runs were: the same model and link.
  Parts measured_step(const Setup& setup, const Placement& placement, double replica_images) const;
  // As asked: another model or link.
  Parts step(const Setup& setup, const Exchange& exchange, int replicas) const;

  void use_link(const Link& link) { communication_.use_link(link); }
  // What another model's computation is off by, as a factor.
  void stretch_computation(double factor) { stretch_ = factor; }

  const Communication& communication() const { return communication_; }
  // Of a step as asked, that more replicas do not shrink; strong scaling only.
  double fixed_seconds(const Setup& setup) const {
    return setup.target_work * stretch_ * computation_.fixed();
  }

 private:
  Parts at(const Setup& setup, const Exchange& exchange, const Placement& placement, double replica_images,
           double work) const;

  double waiting(const Setup& setup, const Placement& placement) const;  // share of computation

  Computation computation_;
  Communication communication_;
  const ExpectedMaximum* maximum_;
  double width_ = 0.0;
  double shared_wait_ = 0.0;
  double stretch_ = 1.0;
};

}  // namespace dtrain::predict
