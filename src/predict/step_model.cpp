#include "predict/step_model.hpp"

namespace dtrain::predict {

StepModel::StepModel(const Setup& setup, const Law& law, const ExpectedMaximum& maximum,
                     const std::vector<Observation>& observations)
    : computation_(setup, observations), communication_(setup, law, observations), maximum_(&maximum) {
  double waited = 0.0;
  double drawn = 0.0;
  for (const auto& o : observations) {
    const int n = o.placement.replicas;
    if (n == 1 || !(o.parts.computation > 0.0)) continue;
    waited += n * o.parts.stragglers / o.parts.computation;
    drawn += n * maximum.above_mean(n);
  }
  width_ = drawn > 0.0 ? waited / drawn : 0.0;
}

Parts StepModel::at(const Setup& setup, const Exchange& exchange, const Placement& placement,
                    double replica_images, double work) const {
  Parts parts;
  parts.computation = work * computation_.seconds(setup, placement, replica_images);
  parts.backward = parts.computation * computation_.backward_share();
  parts.stragglers = parts.computation * width_ * maximum_->above_mean(placement.replicas);
  parts.communication = communication_.exposed(setup, exchange, placement, parts.backward);
  return parts;
}

Parts StepModel::measured_step(const Setup& setup, const Placement& placement, double replica_images) const {
  return at(setup, setup.exchange, placement, replica_images, 1.0);
}

Parts StepModel::step(const Setup& setup, const Exchange& exchange, int replicas) const {
  return at(setup, exchange, setup.place_replicas(replicas), setup.images_of_replica(replicas),
            setup.target_work * stretch_);
}

}  // namespace dtrain::predict
