#include "sample_results.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "base/random.hpp"

namespace dtrain::report {

namespace {

using Base = config::RunPlan::Base;

Result with_facts() {
  Result r;
  r.created = "2024-05-06T07:08:09Z";
  r.command = "dtrain bench --strategy mirrored --gpus 4 --data synthetic";
  r.build = {.version = "0.1.0",
             .commit = "0123456789ab",
             .compiler = "GNU 12.2.0",
             .build_type = "Release",
             .sanitizers = ""};
  r.libraries = {"oneDNN 2.6.3 (avx2)"};
  r.machine = {.key = "5f0c2a91",
               .cpu = "Example 9000",
               .cores = 4,
               .memory = std::size_t{16} << 30,
               .devices = {},
               .driver = ""};
  r.environment = {{"OMP_NUM_THREADS", "1"}, {"CUDA_VISIBLE_DEVICES", ""}};
  r.options.replicas = {4};
  r.options.batch_size = 64;
  r.options.scaling = config::Scaling::weak;
  r.options.formats = {"json", "html"};
  r.options.out = "results/run";
  r.device = "cpu";
  r.device_reason = "no GPU was found";
  r.scaling = config::Scaling::weak;
  r.dataset = {.name = "synthetic", .images = 50000, .checksum = "00c0ffee"};
  r.model = {.name = "cnn",
             .parameters = 122570,
             .training_flops_per_image = 38.2e6,
             .peak_flops_per_replica = 1.1e11,
             .training_bytes_per_image = 3e6,
             .update_bytes = 6e6,
             .peak_bytes_per_replica = 2e10,
             .batch_statistics = false};
  return r;
}

config::RunPlan plan_of(const std::string& strategy, Base base, int replicas) {
  config::RunPlan plan;
  plan.id = base == Base::plain ? "plain" : fmt::format("{}-{}", strategy, replicas);
  plan.strategy = strategy;
  plan.base = base;
  plan.replicas = replicas;
  plan.global_batch = 64 * replicas;
  plan.replica_batch.assign(static_cast<std::size_t>(replicas), 64);
  for (int rank = 0; rank < replicas; ++rank) plan.cores.push_back({rank});
  return plan;
}

measure::RankPhases phases_of(int rank, int replicas, double step, Random& random) {
  measure::RankPhases p;
  const double late = replicas == 4 && rank == 1 ? 0.004 : 0.0;
  p.input = 0.0001 + late;
  p.forward = 0.0105 + 0.0002 * random.uniform();
  p.backward = 0.0195 + 0.0002 * random.uniform();
  p.update = 0.0006;
  p.host = 0.0001;
  p.arrival_measured = replicas > 1;
  p.communication = std::max(0.0, step - p.input - p.forward - p.backward - p.update - p.host);
  p.straggler_wait = p.arrival_measured ? 0.7 * p.communication : 0.0;
  p.last_arrivals = replicas == 1 ? 0.0 : (late > 0.0 ? 0.93 : 0.07 / (replicas - 1));
  p.lateness = late;
  return p;
}

measure::RoundSample round_of(const config::RunPlan& plan, double step, Random& random) {
  measure::RoundSample round;
  round.steps = 32;
  round.warmup_steps = 10;
  round.images = static_cast<std::int64_t>(round.steps) * plan.global_batch;
  for (int i = 0; i < round.steps; ++i) {
    round.step_seconds.push_back(step * (1.0 + 0.03 * std::abs(random.normal())));
    round.seconds += round.step_seconds.back();
  }
  round.calibration_seconds = 0.005 * (1.0 + 0.01 * random.uniform());
  for (int rank = 0; rank < plan.replicas; ++rank) {
    round.ranks.push_back(phases_of(rank, plan.replicas, step, random));
  }
  return round;
}

void add_run(Result& r, const config::RunPlan& plan, double step, int rounds) {
  Random random(mix(17, static_cast<std::uint64_t>(plan.replicas) + (plan.base == Base::plain ? 100 : 0)));
  measure::RunSamples run;
  run.plan = plan;
  for (int i = 0; i < rounds; ++i) run.rounds.push_back(round_of(plan, step, random));
  run.measured_steps = static_cast<std::uint64_t>(32 * rounds);
  for (int i = 0; i < 42 * rounds; ++i) {
    run.losses.push_back(0.4 + 1.9 * std::exp(-i / 40.0) + 0.03 * random.normal());
  }
  run.bytes_sent = plan.replicas == 1 ? 0 : run.measured_steps * 122570 * 4;
  run.replica_bytes = 23'000'000 + static_cast<std::size_t>(plan.replicas) * 100'000;
  run.weights_hash = fmt::format("{:016x}", mix(static_cast<std::uint64_t>(plan.replicas)));
  run.stamp_seconds = 2.5e-8;
  run.stamps_per_step = 8;
  run.noise = {.foreign_load = 0.04,
               .stolen = 0.0,
               .throttled_seconds = 0.0,
               .calibration_spread = 0.013,
               .devices = {}};
  run.replica_peak_bytes = run.replica_bytes + 1'000'000;
  r.samples.runs.push_back(run);

  stats::RunSummary s;
  const double rate = plan.global_batch / step * 0.976;
  s.images_per_second = {.median = rate, .low = rate * 0.992, .high = rate * 1.006};
  s.step_seconds = {.p50 = step * 1.02, .p95 = step * 1.07, .p99 = step * 1.1};
  s.mean_step_seconds = {.median = step * 1.024, .low = step * 1.015, .high = step * 1.03};
  s.measuring_share = 8 * 2.5e-8 / step;
  s.model_flops_per_second = rate * 38.2e6;
  s.peak_share = rate * 38.2e6 / (1.1e11 * plan.replicas);
  s.model_bytes_per_second = rate * 4e6;
  s.bandwidth_share = rate * 4e6 / (2e10 * plan.replicas);
  s.efficiency_reason = plan.base == Base::none ? "" : "it is a base";
  r.summary.runs.push_back(s);
}

void add_scaling(stats::RunSummary& s, int n, double efficiency, double stragglers, double communication) {
  s.speedup = {.median = n * efficiency, .low = n * (efficiency - 0.012), .high = n * (efficiency + 0.009)};
  s.efficiency = {.median = efficiency, .low = efficiency - 0.012, .high = efficiency + 0.009};
  s.efficiency_against_plain = {
      .median = efficiency - 0.004, .low = efficiency - 0.017, .high = efficiency + 0.006};
  const double measured = 0.031 / efficiency;
  stats::LossBudget budget{.ideal_seconds = 0.031,
                           .measured_seconds = measured,
                           .useful_percent = efficiency * 100,
                           .parts = {},
                           .arrivals_measured = true};
  const double lost = 100 - efficiency * 100;
  const double input = 0.3;
  const double slower = 0.25 * lost;
  const double host = 0.2;
  const double residual = lost - input - slower - stragglers - communication - host;
  for (const auto& [name, percent] :
       {std::pair("input", input), std::pair("slower computation", slower),
        std::pair("stragglers", stragglers), std::pair("communication", communication),
        std::pair("update and host", host), std::pair("residual", residual)}) {
    budget.parts.push_back({.name = name, .seconds = measured * percent / 100, .percent = percent});
  }
  s.budget = budget;
}

}  // namespace

Result scaling_result() {
  Result r = with_facts();
  add_run(r, plan_of("single", Base::plain, 1), 0.0308, 5);
  add_run(r, plan_of("mirrored", Base::strategy, 1), 0.0310, 5);
  add_run(r, plan_of("mirrored", Base::none, 2), 0.0324, 5);
  add_run(r, plan_of("mirrored", Base::none, 4), 0.0377, 5);
  r.summary.runs[1].efficiency_against_plain = {.median = 0.994, .low = 0.985, .high = 1.002};
  add_scaling(r.summary.runs[2], 2, 0.957, 1.4, 1.5);
  add_scaling(r.summary.runs[3], 4, 0.822, 8.6, 3.9);
  r.summary.runs[3].straggler = {
      .rank = 1, .phase = config::Phase::input, .last_share = 0.93, .seconds_late = 0.004};
  r.summary.runs[2].steadiness = {
      .stable = false, .reasons = {"other processes kept 0.4 cores busy: stop them and run again"}};
  r.samples.runs[3].notes = {"rank 1 waited 4.0 ms a step in input"};
  r.samples.runs[3].evaluations = {{.epoch = 1, .seconds = 4.2, .loss = 1.31, .accuracy = 0.521},
                                   {.epoch = 2, .seconds = 8.3, .loss = 0.97, .accuracy = 0.6604}};
  r.samples.peak_process_bytes = 141'000'000;
  r.samples.complete = true;
  r.summary.verdict =
      "At N = 4, stragglers cost most: 8.6 % of each step is spent waiting for rank 1, which is late in "
      "input.";
  r.warnings = {"no GPU was found, so the replicas are CPU cores: install a driver or give --device cpu"};
  return r;
}

Result one_point_result() {
  Result r = with_facts();
  add_run(r, plan_of("single", Base::plain, 1), 0.031, 1);
  auto& run = r.samples.runs[0];
  auto& round = run.rounds[0];
  round.steps = 1;
  round.images = 64;
  round.step_seconds.resize(1);
  round.seconds = round.step_seconds[0];
  run.losses.resize(1);
  run.measured_steps = 1;
  r.samples.complete = true;
  return r;
}

Result empty_result() {
  Result r = with_facts();
  r.samples.runs.emplace_back().plan = plan_of("single", Base::plain, 1);
  r.summary.runs.emplace_back();
  return r;
}

Result simulated_result() {
  Result r = with_facts();
  add_run(r, plan_of("mirrored", Base::strategy, 1), 0.031, 3);
  auto plan = plan_of("mirrored", Base::none, 2);
  plan.simulated = true;
  plan.simulated_reason = "2 replicas share 1 core";
  plan.cores.clear();
  add_run(r, plan, 0.062, 3);
  r.summary.runs[1].efficiency_reason = "2 replicas share 1 core";
  r.samples.complete = true;
  return r;
}

Result hostile_result() {
  Result r = scaling_result();
  const std::string bad =
      "</script><script>window.hacked=1</script>\"'`<img src=x onerror=alert(1)>|a\nb\x1b[31m";
  r.command = bad;
  r.dataset.name = bad;
  r.dataset.checksum = bad;
  r.machine.cpu = bad;
  r.machine.key = bad;
  r.machine.devices = {bad};
  r.machine.driver = bad;
  r.device_reason = bad;
  r.libraries = {bad};
  r.model.name = bad;
  r.created = bad;
  r.options.strategy = bad;
  r.options.out = bad;
  r.options.data = bad;
  r.environment = {{"OMP_NUM_THREADS", bad}};
  r.summary.verdict = bad;
  r.warnings = {bad};
  for (auto& run : r.samples.runs) {
    run.plan.id += bad;
    run.plan.simulated_reason = bad;
    run.notes = {bad};
    run.weights_hash = bad;
  }
  r.samples.runs[2].failure = bad;
  return r;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace dtrain::report
