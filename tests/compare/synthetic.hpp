#pragma once

#include <fmt/format.h>

#include <cmath>

#include "base/random.hpp"
#include "compare/comparison.hpp"

namespace dtrain::compare {

// How a machine disturbs a measurement. Deviations and sizes are shares of the rate.
struct Noise {
  double scatter = 0.015;        // of rounds
  double between_runs = 0.01;    // of a run against another
  double autocorrelation = 0.0;  // of a round with the one before
  double drift = 0.0;            // largest, of a run from first to last round, either way, of the program
  double machine = 0.0;          // largest change of the machine's speed between runs, seen by calibration
  double spike_chance = 0.0;     // of a round that something else slows
  double spike = 0.3;
  double mode_chance = 0.0;  // of a round in a slower mode
  double mode = 0.08;
};

struct Bench {
  int rounds = 5;
  int configurations = 3;  // plain, mirrored-1, mirrored-2, ...
  double slower = 0.0;     // share by which all its configurations are slower
  Noise noise;
};

inline std::vector<double> noisy_rates(const Bench& bench, double base, Random& random) {
  const Noise& noise = bench.noise;
  const double run = noise.between_runs * random.normal();
  const double drift = noise.drift * (2.0 * random.uniform() - 1.0);
  double carried = random.normal();
  std::vector<double> rates;
  for (int i = 0; i < bench.rounds; ++i) {
    const double a = noise.autocorrelation;
    if (i > 0) carried = a * carried + std::sqrt(1.0 - a * a) * random.normal();
    double log = run + noise.scatter * carried +
                 drift * (static_cast<double>(i) / std::max(bench.rounds - 1, 1) - 0.5);
    if (random.uniform() < noise.spike_chance) log -= noise.spike;
    if (random.uniform() < noise.mode_chance) log -= noise.mode;
    rates.push_back(base * (1.0 - bench.slower) * std::exp(log));
  }
  return rates;
}

// A result as `bench` leaves it, its rates drawn.
inline report::Result make_result(std::uint64_t seed, const Bench& bench) {
  Random random(mix(seed, 17));
  report::Result result;
  result.created = "2024-05-06T07:08:09Z";
  result.build.version = "0.1.0";
  result.build.commit = "abc";
  result.machine.key = "m1";
  result.machine.cores = 4;
  result.device = "cpu";
  result.options.replicas = {4};
  result.options.batch_size = 64;
  result.dataset = {.name = "synthetic", .images = 50000, .checksum = "c0ffee"};
  result.model.name = "cnn";
  result.model.parameters = 122570;
  result.samples.complete = true;
  const double machine = 1.0 + bench.noise.machine * (2.0 * random.uniform() - 1.0);
  for (int c = 0; c < bench.configurations; ++c) {
    auto& run = result.samples.runs.emplace_back();
    run.plan.replicas = std::max(c, 1);
    run.plan.strategy = c == 0 ? "single" : "mirrored";
    run.plan.id = c == 0 ? "plain" : fmt::format("mirrored-{}", c);
    run.plan.base = c == 0   ? config::RunPlan::Base::plain
                    : c == 1 ? config::RunPlan::Base::strategy
                             : config::RunPlan::Base::none;
    run.plan.global_batch = 64 * run.plan.replicas;
    run.losses = {2.31, 2.25, 2.20, 2.17, 2.11};
    run.measured_steps = 100;
    run.bytes_sent = c > 1 ? 1000 : 0;
    run.replica_peak_bytes = 1 << 20;
    for (const double rate : noisy_rates(bench, 2000.0 * run.plan.replicas, random)) {
      auto& round = run.rounds.emplace_back();
      round.images = 64 * run.plan.replicas * 40;
      round.steps = 40;
      round.seconds = static_cast<double>(round.images) / (rate * machine);
      round.calibration_seconds = 0.005 / machine * std::exp(0.003 * random.normal());
    }
  }
  return result;
}

inline Comparison compare_benches(std::uint64_t seed, const Bench& base, const Bench& next,
                                  const Config& config = {}) {
  return compare({"base", {make_result(2 * seed, base)}}, {"new", {make_result(2 * seed + 1, next)}}, config);
}

}  // namespace dtrain::compare
