#include "predict/step_model.hpp"

namespace dtrain::predict {

namespace {

// Of sums; larger N count more.
class Ratio {
 public:
  void add(double above, double below, int weight) {
    above_ += weight * above;
    below_ += weight * below;
  }
  bool measured() const { return below_ > 0.0; }
  double value() const { return measured() ? above_ / below_ : 0.0; }

 private:
  double above_ = 0.0;
  double below_ = 0.0;
};

// Workers that share a host wait for their link most of the time, so that its cores are not full.
bool fills_cores(const Setup& setup, const Placement& placement) {
  return placement.workers == 1 && setup.load(placement) > 1.0;
}

}  // namespace

StepModel::StepModel(const Setup& setup, const Law& law, const ExpectedMaximum& maximum,
                     const std::vector<Observation>& observations)
    : computation_(setup, observations), communication_(setup, law, observations), maximum_(&maximum) {
  Ratio apart;
  Ratio shared;
  for (const auto& o : observations) {
    const int n = o.placement.replicas;
    if (n == 1 || !(o.parts.computation > 0.0)) continue;
    const double waited = o.parts.stragglers / o.parts.computation;
    if (fills_cores(setup, o.placement)) {
      shared.add(waited, 1.0, n);
    } else {
      apart.add(waited, maximum.above_mean(n), n);
    }
  }
  width_ = apart.value();
  shared_wait_ = shared.measured() ? shared.value() : width_ * maximum.above_mean(setup.places);
}

double StepModel::waiting(const Setup& setup, const Placement& placement) const {
  if (placement.replicas == 1) return 0.0;
  if (fills_cores(setup, placement)) return shared_wait_;
  return width_ * maximum_->above_mean(placement.replicas);
}

Parts StepModel::at(const Setup& setup, const Exchange& exchange, const Placement& placement,
                    double replica_images, double work) const {
  Parts parts;
  parts.computation = work * computation_.seconds(setup, placement, replica_images);
  parts.backward = parts.computation * computation_.backward_share();
  parts.stragglers = parts.computation * waiting(setup, placement);
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
