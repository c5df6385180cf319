#include "train/equivalence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace dtrain::train {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Trace {
  std::vector<float> gradients;  // of the first step
  std::vector<double> losses;
  std::vector<float> weights;  // after the last
  std::set<std::string> hashes;
};

Trace trace(const WorldConfig& config, int steps) {
  World world(config);
  Trace trace;
  world.run(1);
  trace.gradients = world.gradients(0);
  world.run(steps - 1);
  trace.losses = world.losses();
  trace.weights = world.weights(0);
  const auto hashes = world.weight_hashes();
  trace.hashes = {hashes.begin(), hashes.end()};
  return trace;
}

// Batch norm takes away what the bias of the layer before it adds, so that its true gradient is zero and what
// is there is rounding.
bool is_cancelled(const model::Model& model, const model::Parameter& parameter) {
  const auto layer = static_cast<std::size_t>(parameter.layer);
  const bool is_bias =
      parameter.dims.size() == 1 && !std::holds_alternative<model::BatchNorm>(model.layers[layer].operation);
  if (!is_bias) return false;
  bool read = false;
  for (const model::Layer& reader : model.layers) {
    if (std::ranges::find(reader.inputs, parameter.layer) == reader.inputs.end()) continue;
    if (!std::holds_alternative<model::BatchNorm>(reader.operation)) return false;
    read = true;
  }
  return read;
}

double largest_magnitude(std::span<const float> values) {
  double largest = 0.0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

// What a difference within a tensor is measured in: the tensor's largest magnitude; that of its layer, where
// the tensor has none of its own.
double unit_of(const model::Model& model, const model::Parameter& parameter, std::span<const float> values) {
  const auto largest = [&](const model::Parameter& of) {
    return largest_magnitude(values.subspan(of.offset, of.size));
  };
  double unit = largest(parameter);
  if (!is_cancelled(model, parameter)) return unit;
  for (const model::Parameter& other : model.parameters) {
    if (other.layer == parameter.layer) unit = std::max(unit, largest(other));
  }
  return unit;
}

// The largest difference within a tensor, in its unit; of all tensors, the worst. Infinite when there is
// nothing to compare: all values zero, or one not a number.
double tensor_difference(const model::Model& model, const std::vector<float>& one,
                         const std::vector<float>& other) {
  double worst = 0.0;
  bool alive = false;
  for (const auto& parameter : model.parameters) {
    double difference = 0.0;
    for (std::size_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
      if (!std::isfinite(one[i]) || !std::isfinite(other[i])) return infinity;
      difference = std::max(difference, std::abs(static_cast<double>(one[i]) - other[i]));
    }
    const double unit = unit_of(model, parameter, one);
    if (difference > 0.0) worst = std::max(worst, unit > 0.0 ? difference / unit : infinity);
    alive = alive || unit > 0.0;
  }
  return alive ? worst : infinity;
}

double loss_difference(const std::vector<double>& one, const std::vector<double>& other) {
  double worst = 0.0;
  for (std::size_t step = 0; step < one.size(); ++step) {
    const double difference = std::abs(one[step] - other[step]);
    worst = std::max(worst, difference == 0.0 ? 0.0 : difference / std::abs(one[step]));
  }
  return worst;
}

Check check(std::string name, double measured, double limit) {
  return {std::move(name), measured, limit, measured <= limit};
}

void compare_trajectories(const WorldConfig& one, const WorldConfig& many, const EquivalenceLimits& limits,
                          EquivalenceReport& report) {
  const Trace reference = trace(one, limits.steps);
  const Trace measured = trace(many, limits.steps);
  report.checks.push_back(check("first gradients",
                                tensor_difference(*one.model, reference.gradients, measured.gradients),
                                limits.gradients));
  report.checks.push_back(check("losses", loss_difference(reference.losses, measured.losses), limits.losses));
  report.checks.push_back(
      check("weights", tensor_difference(*one.model, reference.weights, measured.weights), limits.weights));
  report.checks.push_back(
      check("distinct weights among ranks", static_cast<double>(measured.hashes.size()), 1.0));
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Every step from the one replica's state. Now and then the last bit of a sum decides which side of a ReLU a
// value falls on, or which one of a pool is the largest: gradients jump there, and trajectories part, as one
// replica's does from its own with the last bits of its weights changed. Most steps meet no such place; a
// fault is in all of them.
void compare_steps(const WorldConfig& one, const WorldConfig& many, const EquivalenceLimits& limits,
                   EquivalenceReport& report) {
  World reference(one);
  World measured(many);
  std::vector<double> gradients;
  std::vector<double> losses;
  std::vector<double> weights;
  std::size_t most_hashes = 0;
  for (int step = 0; step < limits.steps; ++step) {
    if (step > 0) measured.load_state(reference.save_state());
    reference.run(1);
    measured.run(1);
    gradients.push_back(tensor_difference(*one.model, reference.gradients(0), measured.gradients(0)));
    losses.push_back(loss_difference({reference.losses().back()}, {measured.losses().back()}));
    weights.push_back(tensor_difference(*one.model, reference.weights(0), measured.weights(0)));
    const auto hashes = measured.weight_hashes();
    most_hashes = std::max(most_hashes, std::set<std::string>(hashes.begin(), hashes.end()).size());
  }
  report.checks.push_back(check("gradients, median step", median(gradients), limits.gradients));
  report.checks.push_back(check("losses", *std::ranges::max_element(losses), limits.losses));
  report.checks.push_back(check("weights, median step", median(weights), limits.weights));
  report.checks.push_back(check("distinct weights among ranks", static_cast<double>(most_hashes), 1.0));
}

WorldConfig one_replica(const WorldConfig& config, const config::Options& options) {
  WorldConfig one = config;
  one.options = &options;
  one.strategy = strategy::strategies().at("single").value;
  one.plan.id = "single-1";
  one.plan.strategy = "single";
  one.plan.replicas = 1;
  one.plan.replica_batch = {config.plan.global_batch};
  one.plan.simulated = false;
  one.plan.workers.clear();
  one.members.clear();
  one.leader.reset();
  one.communicator.clear();
  if (one.plan.cores.size() > 1) one.plan.cores.resize(1);
  one.delays.clear();
  return one;
}

strategy::Assignment first_assignment(const WorldConfig& world) {
  return world.strategy->assign(
      {.model = world.model.get(), .options = world.options, .plan = &world.plan, .rank = 0});
}

}  // namespace

bool EquivalenceReport::passed() const {
  if (checks.empty()) return false;
  return expected ? std::ranges::all_of(checks, &Check::passed) : checks.back().passed;
}

WorldConfig world_to_verify(const WorldConfig& world, config::Options& options,
                            const EquivalenceLimits& limits) {
  options = *world.options;
  options.optimizer = "sgd";
  options.precision = config::Precision::fp32;
  WorldConfig many = world;
  many.options = &options;
  many.schedule = schedules().at("constant").value({.peak = limits.learning_rate});
  return many;
}

EquivalenceReport verify_equivalence(const WorldConfig& world, const EquivalenceLimits& limits) {
  config::Options options;
  const WorldConfig many = world_to_verify(world, options, limits);
  config::Options whole = options;
  whole.accumulate = 1;
  WorldConfig one = one_replica(many, whole);

  EquivalenceReport report;
  report.strategy = world.plan.strategy;
  report.replicas = world.plan.replicas;
  report.global_batch = world.plan.global_batch;
  const strategy::Assignment first = first_assignment(many);
  const bool normalises = world.model->has_batch_statistics();
  // Batch statistics are over all images of a step, as one replica's are.
  const bool sees_whole_batch = first.max_batch / first.devices == world.plan.global_batch;
  report.expected = !normalises || sees_whole_batch;
  // Both take sums inside of a model in another order, or magnify the difference.
  const bool by_steps = report.expected && (normalises || first.part);
  if (!report.expected) {
    report.note =
        "equivalence is not expected: batch statistics are of the images that a replica takes at once (SGD, "
        "fp32)";
  } else {
    report.note = by_steps ? "SGD with momentum, fp32, every step from the one replica's state"
                           : "SGD with momentum, fp32";
  }
  (by_steps ? compare_steps : compare_trajectories)(one, many, limits, report);
  return report;
}

}  // namespace dtrain::train
