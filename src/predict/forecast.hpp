#pragma once

#include <vector>

#include "predict/choice.hpp"
#include "predict/draws.hpp"
#include "predict/prediction.hpp"

namespace dtrain::predict {

// What takes a step's time beside useful computation.
struct Share {
  std::string name;
  double seconds = 0.0;
  bool lasting = true;  // once it is there, more N do not take it away
};

// The fitted model with all that makes its interval: draws, errors of N that were left out, other laws that
// fit as well.
class Forecast {
 public:
  Forecast(const Setup& setup, const Measured& measured);

  Estimate estimate(int replicas) const;
  // images/s with `exchange` / images/s as it was.
  Range gain(const Exchange& exchange, int replicas) const;

  Parts parts(const Exchange& exchange, int replicas) const;
  double ideal(int replicas) const;  // seconds a step would take if N replicas cost nothing
  // The same names in the same order for all N.
  std::vector<Share> shares(int replicas) const;

  const Setup& setup() const { return *setup_; }
  const Choice& choice() const { return choice_; }
  const StepModel& model() const { return models_.front(); }
  const ExpectedMaximum& maximum() const { return maximum_; }
  const std::vector<Observation>& observations() const { return observations_; }

 private:
  using Quantity = double (Forecast::*)(const StepModel&, int) const;
  double step_of(const StepModel& model, int replicas) const;
  double efficiency_of(const StepModel& model, int replicas) const;
  Range range(Quantity quantity, int replicas, bool by_error) const;
  double error_at(int replicas) const;
  Distance distance_of(int replicas) const;

  const Setup* setup_;
  const Measured* measured_;
  ExpectedMaximum maximum_;
  std::vector<Observation> observations_;
  Choice choice_;
  std::vector<StepModel> models_;  // of the law that was chosen, then of the others
  std::vector<StepModel> draws_;
  double widen_ = 1.0;
};

}  // namespace dtrain::predict
