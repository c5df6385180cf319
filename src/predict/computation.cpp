#include "predict/computation.hpp"

#include <cmath>

#include "predict/nonnegative.hpp"

namespace dtrain::predict {

namespace {

double places_in_use(const Setup& setup, const Placement& placement) {
  return std::min(placement.per_host(), setup.places);
}

}  // namespace

Computation::Computation(const Setup& setup, const std::vector<Observation>& observations) {
  const Parts& last = observations.back().parts;
  backward_share_ = last.computation > 0.0 ? last.backward / last.computation : 0.0;
  if (!setup.strong) {
    fit_use(setup, observations);
    return;
  }
  std::vector<Equation> equations;
  for (const auto& o : observations) {
    equations.push_back({{0.0, 0.0, 1.0, o.replica_images},
                         o.parts.computation / setup.load(o.placement),
                         static_cast<double>(o.placement.replicas)});
  }
  const Columns found = fit_nonnegative(equations);
  fixed_ = found[2];
  an_image_ = found[3];
}

// Larger N count more: they are nearer to what is asked.
void Computation::fit_use(const Setup& setup, const std::vector<Observation>& observations) {
  double shared_weight = 0.0;
  for (const auto& o : observations) {
    const double load = setup.load(o.placement);
    const double seconds = o.parts.computation / load;
    const double weight = o.placement.replicas;
    if (load > 1.0) {
      shared_ = (shared_ * shared_weight + seconds * weight) / (shared_weight + weight);
      shared_weight += weight;
      continue;
    }
    const double places = places_in_use(setup, o.placement);
    if (used_.empty() || used_.back().places != places) used_.push_back({places, 0.0, 0.0, 0.0});
    Used& used = used_.back();
    used.seconds = (used.seconds * used.weight + seconds * weight) / (used.weight + weight);
    used.weight += weight;
    used.error = o.spread * seconds;
  }
  if (used_.size() < 2) return;
  const Used& first = used_[used_.size() - 2];
  const Used& last = used_.back();
  const double rise = last.seconds - first.seconds;
  if (rise > 2.0 * std::hypot(first.error, last.error)) slope_ = rise / (last.places - first.places);
}

double Computation::by_use(double places) const {
  if (places <= used_.front().places) return used_.front().seconds;
  if (places > used_.back().places) return used_.back().seconds + slope_ * (places - used_.back().places);
  const auto above =
      std::find_if(used_.begin(), used_.end(), [&](const Used& used) { return used.places >= places; });
  const auto below = above - 1;
  const double part = (places - below->places) / (above->places - below->places);
  return std::lerp(below->seconds, above->seconds, part);
}

double Computation::without_load(const Setup& setup, const Placement& placement,
                                 double replica_images) const {
  if (setup.strong) return fixed_ + an_image_ * replica_images;
  const bool shares = setup.load(placement) > 1.0;
  if (used_.empty() || (shares && shared_ > 0.0)) return shared_;
  return by_use(places_in_use(setup, placement));
}

double Computation::seconds(const Setup& setup, const Placement& placement, double replica_images) const {
  return without_load(setup, placement, replica_images) * setup.load(placement);
}

}  // namespace dtrain::predict
