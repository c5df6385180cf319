#include "predict/forecast.hpp"

#include <cmath>

namespace dtrain::predict {

namespace {

constexpr double far_beyond = 4.0;     // times the largest measured N
constexpr double error_between = 0.5;  // share of the leave-one-out error that counts among measured N
constexpr double least_error = 0.05;
constexpr double most_error = 10.0;  // of a logarithm: beyond any use, and still finite
constexpr double part_that_limits = 0.1;

// The share that costs most, if it takes a tenth of the step.
std::string limit_of(const std::vector<Share>& shares, double step) {
  const auto most = std::max_element(shares.begin(), shares.end(),
                                     [](const Share& a, const Share& b) { return a.seconds < b.seconds; });
  return most->seconds >= part_that_limits * step ? most->name : "";
}

}  // namespace

Forecast::Forecast(const Setup& setup, const Measured& measured)
    : setup_(&setup),
      measured_(&measured),
      maximum_(measured.noise),
      observations_(observe(measured)),
      choice_(choose_law(setup, maximum_, observations_)),
      widen_(widening(measured.rounds)) {
  models_.emplace_back(setup, choice_.best.law, maximum_, observations_);
  for (const auto& other : choice_.others) models_.emplace_back(setup, other.law, maximum_, observations_);
  if (setup.link) {
    for (auto& model : models_) model.use_link(*setup.link);
  }
  if (measured.rounds > 1) draws_ = draw_models(setup, choice_.best.law, maximum_, measured);
}

Parts Forecast::parts(const Exchange& exchange, int replicas) const {
  return model().step(*setup_, exchange, replicas);
}

double Forecast::ideal(int replicas) const {
  const double alone = model().step(*setup_, setup_->target_exchange, 1).step();
  return alone * setup_->images(replicas) / replicas / setup_->images(1);
}

std::vector<Share> Forecast::shares(int replicas) const {
  const Parts all = parts(setup_->target_exchange, replicas);
  const double slower = all.computation - ideal(replicas);
  std::vector<Share> shares;
  const auto add = [&](std::string name, double seconds, bool lasting = true) {
    Share& share = shares.emplace_back();
    share.name = std::move(name);
    share.seconds = seconds;
    share.lasting = lasting;
  };
  add("communication", all.communication);
  add("stragglers", all.stragglers);
  if (!setup_->strong) {
    add(setup_->link ? "slower computation" : fmt::format("replicas that share {}s or memory", setup_->place),
        slower);
    return shares;
  }
  const double shared = all.computation * (1.0 - 1.0 / setup_->load(setup_->place_replicas(replicas)));
  const double fixed = model().fixed_seconds(*setup_) * (1.0 - 1.0 / replicas);
  add(fmt::format("replicas that share {}s", setup_->place), shared);
  add("fixed costs of a step", fixed);
  add("a batch that does not divide evenly", slower - shared - fixed, false);
  return shares;
}

double Forecast::step_of(const StepModel& model, int replicas) const {
  return model.step(*setup_, setup_->target_exchange, replicas).step();
}

double Forecast::efficiency_of(const StepModel& model, int replicas) const {
  const double alone = step_of(model, 1);
  const double step = step_of(model, replicas);
  return step > 0.0 ? alone * setup_->images(replicas) / (setup_->images(1) * replicas * step) : 0.0;
}

// Grows with every doubling beyond the largest measured N. A few N that are predicted well may be so by
// chance.
double Forecast::error_at(int replicas) const {
  const double beyond = std::log2(static_cast<double>(replicas) / setup_->largest.replicas);
  const double error = std::max(choice_.best.worst, least_error);
  return std::min(most_error,
                  error * (beyond <= 0.0 && !setup_->link ? error_between : std::max(1.0, beyond)));
}

Range Forecast::range(Quantity quantity, int replicas, bool by_error) const {
  Range range;
  range.value = (this->*quantity)(model(), replicas);
  std::vector<double> drawn;
  drawn.reserve(draws_.size());
  for (const auto& model : draws_) drawn.push_back((this->*quantity)(model, replicas));
  const Spread spread = spread_of(std::move(drawn), range.value, widen_);
  const double error = by_error ? error_at(replicas) : 0.0;
  range.low = range.value * std::exp(-std::hypot(std::log(spread.low), error));
  range.high = range.value * std::exp(std::hypot(std::log(spread.high), error));
  for (const auto& model : models_) {
    range.low = std::min(range.low, (this->*quantity)(model, replicas));
    range.high = std::max(range.high, (this->*quantity)(model, replicas));
  }
  return range;
}

Distance Forecast::distance_of(int replicas) const {
  const int largest = setup_->largest.replicas;
  if (replicas > far_beyond * largest) return Distance::far;
  if (replicas > largest) return Distance::extrapolated;
  if (setup_->link || setup_->another_model) return Distance::otherwise;
  const bool measured = std::any_of(measured_->points.begin(), measured_->points.end(),
                                    [&](const Point& point) { return point.placement.replicas == replicas; });
  return measured ? Distance::measured : Distance::between;
}

Estimate Forecast::estimate(int replicas) const {
  Estimate estimate;
  estimate.replicas = replicas;
  estimate.placement = setup_->place_replicas(replicas);
  estimate.distance = distance_of(replicas);
  estimate.shares = setup_->load(estimate.placement) > 1.0;
  estimate.parts = parts(setup_->target_exchange, replicas);
  estimate.ideal = ideal(replicas);
  estimate.step = range(&Forecast::step_of, replicas, true);
  const double images = setup_->images(replicas);
  estimate.images_per_second = {images / estimate.step.value, images / estimate.step.high,
                                images / estimate.step.low};
  estimate.efficiency = range(&Forecast::efficiency_of, replicas, replicas > 1);
  estimate.limit = limit_of(shares(replicas), estimate.parts.step());
  for (std::size_t i = 0; estimate.distance == Distance::measured && i < observations_.size(); ++i) {
    if (observations_[i].placement.replicas != replicas) continue;
    estimate.measured_step = observations_[i].parts.step();
    estimate.measured_images_per_second = measured_->points[i].images / *estimate.measured_step;
  }
  return estimate;
}

Range Forecast::gain(const Exchange& exchange, int replicas) const {
  const auto factor = [&](const StepModel& model) {
    const double before = step_of(model, replicas);
    const double after = model.step(*setup_, exchange, replicas).step();
    return after > 0.0 ? before / after : 1.0;
  };
  Range gain{.value = factor(model()), .low = 0.0, .high = 0.0};
  std::vector<double> drawn;
  drawn.reserve(draws_.size());
  for (const auto& model : draws_) drawn.push_back(factor(model));
  const Spread spread = spread_of(std::move(drawn), gain.value, widen_);
  gain.low = gain.value * spread.low;
  gain.high = gain.value * spread.high;
  for (const auto& model : models_) {
    gain.low = std::min(gain.low, factor(model));
    gain.high = std::max(gain.high, factor(model));
  }
  return gain;
}

}  // namespace dtrain::predict
