#pragma once

#include <string>
#include <vector>

#include "train/world.hpp"

namespace dtrain::train {

// Where two runs of the same training may differ: sums are taken in another order, no more.
struct EquivalenceLimits {
  double gradients = 2e-5;  // first step; of each tensor's largest
  double losses = 1e-4;     // relative, every step
  double weights = 1e-5;    // after the last step; of each tensor's largest
  int steps = 20;
  double learning_rate = 0.01;
};

struct Check {
  std::string name;
  double measured = 0.0;
  double limit = 0.0;
  bool passed = false;
};

struct EquivalenceReport {
  std::string strategy;
  int replicas = 0;
  int global_batch = 0;
  bool expected = true;  // false: the model has batch statistics and nothing synchronises them
  std::string note;
  std::vector<Check> checks;  // gradients, losses, weights, ranks agree
  // All checks, or the agreement of ranks alone where equivalence is not expected.
  bool passed() const;
};

// `world` as it is trained for the comparison. `options` holds its options, and outlives it.
WorldConfig world_to_verify(const WorldConfig& world, config::Options& options,
                            const EquivalenceLimits& limits);

// Trains one replica with the global batch, then `world.plan` (its strategy, replicas and accumulation), on
// the same images with the same initial weights, under SGD with momentum in fp32 whatever the options say:
// other optimizers and precisions magnify the last bits of a sum, so that a limit would say little. So do
// batch norm and sums inside of a split model: there every step starts from the one replica's state, and of
// gradients and weights the median step decides.
EquivalenceReport verify_equivalence(const WorldConfig& world, const EquivalenceLimits& limits = {});

}  // namespace dtrain::train
