#include "predict/communication.hpp"

#include <cmath>
#include <numeric>

namespace dtrain::predict {

namespace {

constexpr int turns_until_queues_agree = 50;
constexpr double doublings_that_count = 2.0;

double mean_bucket(const Exchange& exchange) {
  double bytes = 0.0;
  for (const auto& bucket : exchange.buckets) bytes += bucket.bytes;
  return bytes / static_cast<double>(exchange.buckets.size());
}

// Of the pass in which buckets become ready: the last of a step's micro-steps.
double last_backward(const Setup& setup, double backward) { return backward / setup.accumulate; }

Columns sum_over_buckets(const Setup& setup, const Law& law, const Exchange& exchange,
                         const Placement& placement) {
  Columns sum{};
  for (const auto& bucket : exchange.buckets) {
    const Columns one = law.columns(placement, bucket.bytes, exchange.sent_share, setup.load(placement));
    for (std::size_t c = 0; c < coefficients; ++c) sum[c] += one[c];
  }
  return sum;
}

}  // namespace

Communication::Communication(const Setup& setup, const Law& law, const std::vector<Observation>& observations)
    : law_(law) {
  auto equations = sweep_equations(setup);
  if (equations.empty()) {
    fit_runs(setup, observations);
    return;
  }
  if (setup.runs_tell_local) {
    for (const auto& o : observations) {
      if (o.placement.per_worker() == 1) continue;
      equations.push_back({sum_over_buckets(setup, law_, setup.exchange, o.placement),
                           o.parts.communication * setup.exchange.sync_every, 1.0});
    }
  }
  unknowns_ = fit_nonnegative(equations);
  double squares = 0.0;
  double weights = 0.0;
  for (const auto& equation : equations) {
    const double error = product(equation.columns, unknowns_) / equation.value - 1.0;
    squares += equation.weight * error * error;
    weights += equation.weight;
  }
  sweep_misfit_ = std::sqrt(squares / weights);
  calibrate(setup, observations);
}

std::vector<Equation> Communication::sweep_equations(const Setup& setup) const {
  std::vector<Equation> equations;
  const double typical_bytes = mean_bucket(setup.exchange);
  for (const auto& sweep : setup.sweeps) {
    const Placement placement{.replicas = sweep.ranks, .workers = sweep.workers, .hosts = sweep.workers};
    for (const auto& size : sweep.sizes) {
      const double apart = std::log2(static_cast<double>(size.bytes) / typical_bytes) / doublings_that_count;
      equations.push_back(
          {law_.columns(placement, static_cast<double>(size.bytes), 1.0, setup.load(placement)), size.seconds,
           std::exp(-0.5 * apart * apart) + 1e-6});
    }
  }
  return equations;
}

Equation Communication::equation_of(const Setup& setup, const Observation& observation,
                                    std::size_t first_bucket) const {
  const auto& buckets = setup.exchange.buckets;
  Exchange rest = setup.exchange;
  rest.buckets.assign(buckets.begin() + static_cast<std::ptrdiff_t>(first_bucket), buckets.end());
  const double left = setup.exchange.overlap ? (1.0 - buckets[first_bucket].ready) *
                                                   last_backward(setup, observation.parts.backward)
                                             : 0.0;
  return {sum_over_buckets(setup, law_, rest, observation.placement),
          observation.parts.communication * setup.exchange.sync_every + left, 1.0};
}

void Communication::fit_runs(const Setup& setup, const std::vector<Observation>& observations) {
  std::vector<const Observation*> of;
  for (const auto& o : observations) {
    if (o.placement.replicas == 1) continue;
    of.push_back(&o);
    determined_ = determined_ && o.parts.communication > 0.0;
  }
  determined_ = determined_ && !of.empty();
  std::vector<std::size_t> first(of.size(), 0);
  for (int turn = 0; turn < turns_until_queues_agree; ++turn) {
    std::vector<Equation> equations;
    for (std::size_t i = 0; i < of.size(); ++i) equations.push_back(equation_of(setup, *of[i], first[i]));
    unknowns_ = fit_nonnegative(equations);
    if (!setup.exchange.overlap) return;
    const auto before = first;
    for (std::size_t i = 0; i < of.size(); ++i) {
      first[i] =
          first_of_queue(setup.exchange.buckets, bucket_seconds(setup, setup.exchange, of[i]->placement),
                         last_backward(setup, of[i]->parts.backward));
    }
    if (first == before) return;
  }
}

void Communication::calibrate(const Setup& setup, const std::vector<Observation>& observations) {
  double sum = 0.0;
  double weights = 0.0;
  for (const auto& o : observations) {
    const double expected = exposed(setup, setup.exchange, o.placement, o.parts.backward);
    if (!(expected > 0.0) || !(o.parts.communication > 0.0)) continue;
    sum += o.placement.replicas * std::log(o.parts.communication / expected);
    weights += o.placement.replicas;
  }
  calibration_ = weights > 0.0 ? std::exp(sum / weights) : 1.0;
  for (double& unknown : unknowns_) unknown *= *calibration_;
}

void Communication::use_link(const Link& link) {
  unknowns_[0] = link.alpha;
  unknowns_[1] = link.beta;
}

double Communication::all_reduce_seconds(const Setup& setup, const Placement& placement, double bytes,
                                         double sent_share) const {
  return product(law_.columns(placement, bytes, sent_share, setup.load(placement)), unknowns_);
}

std::vector<double> Communication::bucket_seconds(const Setup& setup, const Exchange& exchange,
                                                  const Placement& placement) const {
  std::vector<double> seconds;
  seconds.reserve(exchange.buckets.size());
  for (const auto& bucket : exchange.buckets) {
    seconds.push_back(all_reduce_seconds(setup, placement, bucket.bytes, exchange.sent_share));
  }
  return seconds;
}

double Communication::exposed(const Setup& setup, const Exchange& exchange, const Placement& placement,
                              double backward) const {
  if (placement.replicas == 1) return 0.0;
  const auto seconds = bucket_seconds(setup, exchange, placement);
  const double whole = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (!exchange.overlap) return whole / exchange.sync_every;
  return predict::exposed(exchange.buckets, seconds, last_backward(setup, backward)) / exchange.sync_every;
}

}  // namespace dtrain::predict
