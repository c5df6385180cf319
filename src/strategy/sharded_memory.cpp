#include "strategy/sharded_memory.hpp"

#include <algorithm>
#include <cmath>

#include "backend/buckets.hpp"
#include "kernels/optimizer.hpp"

namespace dtrain::strategy {
namespace {

// Parameters of the largest bucket.
std::size_t largest_bucket(const AssignmentContext& context) {
  const model::Model& model = *context.model;
  std::vector<backend::Slot> slots;
  for (const model::Parameter& parameter : model.parameters) {
    slots.push_back({static_cast<int>(slots.size()), {parameter.offset, 0}});
  }
  const auto plan = backend::plan_buckets(model, slots, model.parameter_count, bucket_bytes(context));
  std::size_t largest = 0;
  for (const backend::Range& bucket : plan.buckets) largest = std::max(largest, bucket.size);
  return largest;
}

FlatBytes largest_measured(const measure::RunSamples& samples) {
  FlatBytes bytes;
  for (const measure::RankMemory& rank : samples.rank_memory) {
    bytes.weights = std::max(bytes.weights, static_cast<double>(rank.weights));
    bytes.gradients = std::max(bytes.gradients, static_cast<double>(rank.gradients));
    bytes.optimizer = std::max(bytes.optimizer, static_cast<double>(rank.optimizer));
  }
  return bytes;
}

}  // namespace

bool gradients_go_early(const config::Options& options) {
  return options.zero_stage >= 2 && options.overlap && options.accumulate == 1;
}

std::size_t bucket_bytes(const AssignmentContext& context) {
  const auto asked = static_cast<std::size_t>(std::llround(context.options->bucket_mb * 1e6));
  const auto ranks = static_cast<std::size_t>(context.plan->replicas);
  const std::size_t whole = context.model->parameter_count * sizeof(float);
  return ranks == 1 ? asked : std::max<std::size_t>(std::min(asked, whole / (4 * ranks)), 1);
}

FlatBytes bytes_by_theory(const AssignmentContext& context) {
  const config::Options& options = *context.options;
  const double ranks = context.plan->replicas;
  const auto whole = static_cast<double>(context.model->parameter_count * sizeof(float));
  const double part = whole / ranks;
  const double largest_of_others =
      static_cast<double>(largest_bucket(context) * sizeof(float)) * (ranks - 1.0) / ranks;
  const bool rounded = options.precision == config::Precision::bf16;
  FlatBytes bytes;
  bytes.weights = (options.zero_stage >= 3 ? part + largest_of_others : whole) * (rounded ? 2.0 : 1.0);
  bytes.gradients = gradients_go_early(options) ? part + largest_of_others : whole;
  bytes.optimizer = part * kernels::optimizers().at(options.optimizer).value.states;
  return bytes;
}

std::vector<measure::Fact> memory_facts(const AssignmentContext& context,
                                        const measure::RunSamples& samples) {
  const FlatBytes theory = bytes_by_theory(context);
  const FlatBytes measured = largest_measured(samples);
  std::vector<measure::Fact> facts;
  const auto add = [&](const std::string& what, double by_theory, double found) {
    facts.push_back({what + "_bytes_theory", by_theory, "bytes",
                     fmt::format("{} of a rank while it takes steps, by stage {}'s formula", what,
                                 context.options->zero_stage)});
    facts.push_back({what + "_bytes_measured", found, "bytes",
                     fmt::format("{} that the system held for the rank with the most", what)});
  };
  add("weights", theory.weights, measured.weights);
  add("gradients", theory.gradients, measured.gradients);
  add("optimizer", theory.optimizer, measured.optimizer);
  return facts;
}

}  // namespace dtrain::strategy
