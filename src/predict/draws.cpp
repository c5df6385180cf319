#include "predict/draws.hpp"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "base/random.hpp"
#include "stats/interval.hpp"

namespace dtrain::predict {

namespace {

constexpr int draws = 400;
constexpr std::uint64_t seed = 0x7072'6564'6963'74ULL;
constexpr double normal_quantile = 1.959964;
constexpr double doubt_of_another_model = 0.25;  // standard deviation of the logarithm of its computation
constexpr double deviation_of_normal = 1.4826;   // standard deviation / median absolute deviation
constexpr double error_of_median = 1.2533;       // of that of a mean

double computation_spread(const Point& point, double middle) {
  std::vector<double> apart;
  for (const auto& round : point.rounds) apart.push_back(std::abs(round.computation - middle));
  const double deviation = deviation_of_normal * stats::median(std::move(apart));
  return middle > 0.0
             ? error_of_median * deviation / middle / std::sqrt(static_cast<double>(point.rounds.size()))
             : 0.0;
}

std::size_t most_rounds(const Measured& measured) {
  std::size_t most = 0;
  for (const auto& point : measured.points) most = std::max(most, point.rounds.size());
  return most;
}

}  // namespace

std::vector<Observation> observe(const Measured& measured, const std::vector<double>& chosen) {
  std::vector<Observation> observations;
  for (const auto& point : measured.points) {
    Observation o{.placement = point.placement,
                  .replica_images = point.replica_images,
                  .parts = typical(point, chosen),
                  .spread = 0.0};
    o.spread = computation_spread(point, o.parts.computation);
    observations.push_back(o);
  }
  return observations;
}

std::vector<StepModel> draw_models(const Setup& setup, const Law& law, const ExpectedMaximum& maximum,
                                   const Measured& measured) {
  Random random(seed);
  std::vector<double> chosen(most_rounds(measured));
  std::vector<StepModel> models;
  models.reserve(draws);
  for (int draw = 0; draw < draws; ++draw) {
    for (double& where : chosen) where = random.uniform();
    models.emplace_back(setup, law, maximum, observe(measured, chosen));
    if (setup.link) {
      Link link = *setup.link;
      link.alpha *= std::exp(link.doubt * random.normal());
      link.beta *= std::exp(link.doubt * random.normal());
      models.back().use_link(link);
    }
    if (setup.another_model)
      models.back().stretch_computation(std::exp(doubt_of_another_model * random.normal()));
  }
  return models;
}

double widening(int rounds) {
  if (rounds < 2) return 1.0;
  const double n = rounds;
  const double t = boost::math::quantile(boost::math::students_t(n - 1.0), 0.975);
  return t / normal_quantile * std::sqrt(n / (n - 1.0)) * std::sqrt(2.0);
}

Spread spread_of(std::vector<double> values, double value, double widen) {
  if (!(value > 0.0) || values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto factor = [&](double fraction) {
    const double at = stats::percentile(values, fraction);
    return at > 0.0 ? std::exp(widen * std::log(at / value)) : 1.0;
  };
  return {std::min(1.0, factor(0.025)), std::max(1.0, factor(0.975))};
}

}  // namespace dtrain::predict
