#include "synthetic.hpp"

#include "base/random.hpp"
#include "model/flops.hpp"
#include "model/zoo.hpp"

namespace dtrain::predict {

namespace {

double images_of_replica(const Truth& truth, int replicas) {
  return truth.scaling == config::Scaling::strong ? static_cast<double>(truth.batch) / replicas : truth.batch;
}

// Steps in which every rank computes for as long as chance has it, and all wait for the last.
measure::RoundSample make_round(const Truth& truth, int replicas, Random& random) {
  constexpr int steps = 60;
  measure::RoundSample round;
  round.steps = steps;
  round.calibration_seconds = 5 * ms;
  round.images = static_cast<std::int64_t>(images_of_replica(truth, replicas) * replicas * steps);
  round.ranks.resize(static_cast<std::size_t>(replicas));
  const double speed = 1.0 + truth.round_noise * random.normal();
  const double computation = truth.computation(replicas) * speed;
  const double communication = truth.communication(replicas) * speed;
  const double whole = truth.forward + truth.backward + truth.update;
  for (int step = 0; step < steps; ++step) {
    std::vector<double> own;
    for (int rank = 0; rank < replicas; ++rank) {
      own.push_back(computation * (1.0 + truth.step_noise * random.normal()));
    }
    const double last = *std::max_element(own.begin(), own.end());
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      auto& phases = round.ranks[rank];
      phases.forward += own[rank] * truth.forward / whole / steps;
      phases.backward += own[rank] * truth.backward / whole / steps;
      phases.update += own[rank] * truth.update / whole / steps;
      phases.straggler_wait += (last - own[rank]) / steps;
      phases.communication += (last - own[rank] + communication) / steps;
      phases.arrival_measured = true;
    }
    round.step_seconds.push_back(last + communication);
    round.seconds += last + communication;
  }
  return round;
}

measure::RunSamples make_run(const Truth& truth, int replicas, int rounds, Random& random) {
  measure::RunSamples run;
  auto& plan = run.plan;
  plan.strategy = truth.workers ? "multi-worker" : "mirrored";
  plan.id = fmt::format("{}-{}", plan.strategy, replicas);
  plan.base = replicas == 1 ? config::RunPlan::Base::strategy : config::RunPlan::Base::none;
  plan.replicas = replicas;
  plan.global_batch = static_cast<int>(images_of_replica(truth, replicas) * replicas);
  for (int rank = 0; truth.workers && rank < replicas; ++rank) plan.workers.push_back(rank);
  plan.simulated = !truth.workers && replicas > truth.cores;
  for (int i = 0; i < rounds; ++i) run.rounds.push_back(make_round(truth, replicas, random));
  return run;
}

}  // namespace

double Truth::computation(int replicas) const {
  const double whole = forward + backward + update;
  const double shared = workers ? 1.0 : std::max(1.0, static_cast<double>(replicas) / cores);
  return (fixed + whole * images_of_replica(*this, replicas) / batch) * shared;
}

double Truth::communication(int replicas) const {
  if (replicas == 1) return 0.0;
  const auto buckets = buckets_of(model::zoo().at(model).value(), bucket_mb);
  std::vector<double> seconds;
  for (const auto& bucket : buckets) {
    const LevelCost cost = law.cost(replicas, bucket.bytes);
    seconds.push_back(cost.messages * alpha + cost.bytes * beta);
  }
  const double share = backward / (forward + backward + update);
  return exposed(buckets, seconds, workers ? share * computation(replicas) : 0.0);
}

report::Result make_result(const Truth& truth, const std::vector<int>& replicas, int rounds,
                           std::uint64_t seed) {
  report::Result result;
  Random random(seed);
  result.created = "2026-01-01T00:00:00Z";
  result.options.strategy = truth.workers ? "multi-worker" : "mirrored";
  result.options.allreduce = "auto";
  result.options.comm = truth.workers ? "mpi" : "auto";
  result.scaling = truth.scaling;
  result.device = "cpu";
  result.machine.cores = truth.cores;
  const model::Model model = model::zoo().at(truth.model).value();
  result.options.bucket_mb = truth.bucket_mb;
  result.model = {.name = truth.model,
                  .parameters = model.parameter_count,
                  .training_flops_per_image = model::training_flops(model)};
  for (int host = 0; truth.workers && host < replicas.back(); ++host) {
    result.cluster.tasks.push_back(
        {.role = "worker", .index = host, .address = "", .host = fmt::format("host{}", host)});
  }
  for (const int n : replicas) result.samples.runs.push_back(make_run(truth, n, rounds, random));
  result.samples.complete = true;
  return result;
}

Sweep make_sweep(const Truth& truth, int workers) {
  Sweep sweep{.file = fmt::format("sweep-{}.json", workers),
              .communicator = "mpi",
              .compress = "none",
              .workers = workers,
              .ranks = workers,
              .sizes = {}};
  for (double bytes = 1024; bytes < 3e7; bytes *= 4) {
    const LevelCost cost = truth.law.cost(workers, bytes);
    sweep.sizes.push_back(
        {static_cast<std::size_t>(bytes), cost.messages * truth.alpha + cost.bytes * truth.beta, ""});
  }
  return sweep;
}

}  // namespace dtrain::predict
