#include "report/tables.hpp"

#include <numeric>

#include "base/text.hpp"
#include "report/format.hpp"

namespace dtrain::report {

namespace {

using Base = config::RunPlan::Base;

constexpr const char* nothing = "-";

std::string efficiency_cell(const measure::RunSamples& run,
                            const std::optional<stats::Interval>& efficiency) {
  if (!run.failure.empty()) return "failed";
  if (run.plan.simulated) return "simulated";
  if (efficiency) return percent_of_one(*efficiency);
  return run.plan.base == Base::none ? nothing : "base";
}

std::string name_of(const measure::RunSamples& run) {
  return run.plan.id + (run.plan.simulated ? " (simulated)" : "");
}

std::vector<std::string> scaling_row(const measure::RunSamples& run, const stats::RunSummary& s) {
  if (run.rounds.empty()) {
    const std::string state = run.failure.empty() ? "not measured" : "failed";
    return {
        name_of(run), std::to_string(run.plan.replicas), state, nothing, nothing, nothing, nothing, nothing,
        nothing};
  }
  const bool scaled = !run.plan.simulated && run.failure.empty();
  return {name_of(run),
          std::to_string(run.plan.replicas),
          rate(s.images_per_second),
          fmt::format("{} / {} / {}", milliseconds(s.step_seconds.p50), milliseconds(s.step_seconds.p95),
                      milliseconds(s.step_seconds.p99)),
          scaled && s.speedup ? factor(s.speedup->median) : nothing,
          efficiency_cell(run, s.efficiency),
          efficiency_cell(run, s.efficiency_against_plain),
          run.replica_bytes == 0 ? nothing : bytes(static_cast<double>(run.replica_bytes)),
          s.steadiness.stable ? "yes" : "NO"};
}

std::string listed(const std::vector<int>& numbers) { return fmt::format("{}", fmt::join(numbers, ", ")); }

struct Batches {
  std::vector<int> replicas;
  std::vector<int> global;
  std::vector<int> replica;  // largest share a step
};

Batches batches_of(const Result& result) {
  Batches out;
  const auto& runs = result.samples.runs;
  const bool only_plain =
      std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run.plan.base == Base::plain; });
  for (const auto& run : runs) {
    if (run.plan.base == Base::plain && !only_plain) continue;
    const bool same_size = !out.replicas.empty() && out.replicas.back() == run.plan.replicas &&
                           out.global.back() == run.plan.global_batch;
    if (same_size) continue;  // other strategies, or other sums
    out.replicas.push_back(run.plan.replicas);
    out.global.push_back(run.plan.global_batch);
    out.replica.push_back(run.plan.replica_batch.empty() ? 0 : run.plan.replica_batch.front());
  }
  return out;
}

bool all_equal(const std::vector<int>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

std::string batch_fact(const Result& result) {
  const Batches b = batches_of(result);
  if (b.replicas.empty()) return nothing;
  const auto values = [](const std::vector<int>& list) {
    return all_equal(list) ? count(list.front()) : listed(list);
  };
  const int accumulate = result.options.accumulate;
  std::string text =
      fmt::format("{} images a replica{}, {} a step over all replicas (global)", values(b.replica),
                  accumulate > 1 ? " and micro-step" : "", values(b.global));
  if (accumulate > 1) text += fmt::format(", {} micro-steps a step", accumulate);
  if (!all_equal(b.replica) || !all_equal(b.global)) text += fmt::format(" at N = {}", listed(b.replicas));
  return text;
}

std::string device_fact(const Result& result) {
  std::string text = result.device;
  if (!result.device_reason.empty()) text += ": " + result.device_reason;
  if (result.device == "cpu") {
    text += fmt::format("; {} a replica", count(result.options.threads_per_replica, "core"));
  }
  return text;
}

std::string measuring_fact(const Result& result) {
  const auto& o = result.options;
  const std::string warmup = o.warmup ? count(*o.warmup, "warm-up step") : "warm-up until steady";
  const std::string length =
      o.steps ? count(*o.steps, "step") : fmt::format("at least {:g} s", o.min_time.count());
  return fmt::format("{} of {} each, all N in turns, after {}", count(o.rounds, "round"), length, warmup);
}

std::string model_fact(const ModelInfo& model) {
  std::string text =
      fmt::format("{}, {}", model.name, count(static_cast<std::int64_t>(model.parameters), "parameter"));
  if (model.training_flops_per_image > 0.0) {
    text += fmt::format(", {} an image in training", flops(model.training_flops_per_image));
  }
  return model.batch_statistics ? text + ", batch statistics a replica" : text;
}

std::string data_fact(const DatasetInfo& dataset) {
  std::string text =
      fmt::format("{}, {} images", dataset.name, count(static_cast<std::int64_t>(dataset.images)));
  if (!dataset.checksum.empty()) text += ", checksum " + dataset.checksum;
  return text;
}

double mean_over_rounds(const measure::RunSamples& run, std::size_t rank, double measure::RankPhases::*part) {
  double sum = 0.0;
  int rounds = 0;
  for (const auto& round : run.rounds) {
    if (rank >= round.ranks.size()) continue;
    sum += round.ranks[rank].*part;
    ++rounds;
  }
  return rounds == 0 ? 0.0 : sum / rounds;
}

bool has_fused_steps(const Result& result) {
  return std::ranges::any_of(result.samples.runs, [](const auto& run) {
    return mean_over_rounds(run, 0, &measure::RankPhases::fused) > 0.0;
  });
}

// Whether a phase was told from others. In a fused step there is input, and then the program.
bool is_seen(const measure::RunSamples& run, std::size_t rank, double measure::RankPhases::*part) {
  using measure::RankPhases;
  const bool needs_arrival = part == &RankPhases::straggler_wait || part == &RankPhases::lateness;
  if (needs_arrival) return run.rounds.front().ranks[rank].arrival_measured;
  const bool fused = mean_over_rounds(run, rank, &RankPhases::fused) > 0.0;
  if (part == &RankPhases::fused) return fused;
  return !fused || part == &RankPhases::input || part == &RankPhases::host;
}

}  // namespace

std::vector<Fact> command_facts(const Result& result) {
  const auto& o = result.options;
  const Batches b = batches_of(result);
  const bool weak = result.scaling == config::Scaling::weak;
  std::vector<Fact> facts = {{"model", model_fact(result.model)},
                             {"strategy", fmt::format("{}, N = {} replica{}", o.strategy,
                                                      b.replicas.empty() ? "?" : listed(b.replicas),
                                                      b.replicas == std::vector{1} ? "" : "s")},
                             {"device", device_fact(result)},
                             {"batch", batch_fact(result)},
                             {"scaling", weak ? "weak: the batch of a replica is held as N grows"
                                              : "strong: the global batch is held as N grows"},
                             {"precision", config::name(o.precision)},
                             {"optimizer", fmt::format("{}, learning rate {}, {} schedule", o.optimizer,
                                                       o.learning_rate, o.schedule)},
                             {"data", data_fact(result.dataset)},
                             {"measuring", measuring_fact(result)}};
  for (const auto& delay : o.injected_delays) {
    facts.push_back({"injected", fmt::format("rank {} sleeps {} ms in {} of every step at the largest N",
                                             delay.rank, delay.milliseconds, config::name(delay.phase))});
  }
  return facts;
}

std::vector<Fact> machine_facts(const Result& result) {
  const auto& m = result.machine;
  std::vector<Fact> facts = {{"processor", fmt::format("{}, {} cores", m.cpu, m.cores)},
                             {"memory", bytes(static_cast<double>(m.memory))},
                             {"devices", m.devices.empty() ? "no accelerator" : join(m.devices, ", ")}};
  if (!m.driver.empty()) facts.push_back({"driver", m.driver});
  facts.push_back({"machine key", m.key});
  facts.push_back({"build", fmt::format("dtrain {} ({}), {}, {}", result.build.version, result.build.commit,
                                        result.build.compiler, result.build.build_type)});
  if (!result.libraries.empty()) facts.push_back({"libraries", join(result.libraries, ", ")});
  facts.push_back({"created", result.created});
  return facts;
}

Table scaling_table(const Result& result) {
  Table table{.title = "Scaling",
              .caption =
                  "images/s: median over rounds [95 % bootstrap interval]. Step: percentiles over all steps. "
                  "Speed-up and efficiency: against N = 1 through the strategy, paired by round; "
                  "efficiency = speed-up / N [95 % interval]. Plain loop: the same against one device "
                  "without a strategy. Memory: largest replica's own allocations.",
              .columns = {{"run"},
                          {"N", true},
                          {"images/s [95 %]", true},
                          {"step ms p50 / p95 / p99", true},
                          {"speed-up", true},
                          {"efficiency [95 %]", true},
                          {"vs plain loop [95 %]", true},
                          {"memory", true},
                          {"steady"}},
              .rows = {}};
  for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
    table.rows.push_back(scaling_row(result.samples.runs[i], summary_of(result, i)));
  }
  return table;
}

Table budget_table(const Result& result) {
  Table table{.title = "Loss budget",
              .caption =
                  "Share of the measured step in the round of median efficiency, mean over ranks; useful = "
                  "the step if N replicas cost nothing. "
                  "A column adds up to 100 %; a negative part was faster than in the base.",
              .columns = {},
              .rows = {}};
  std::vector<std::pair<std::string, const stats::LossBudget*>> budgets;
  for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
    const auto& budget = summary_of(result, i).budget;
    if (budget) budgets.emplace_back(name_of(result.samples.runs[i]), &*budget);
  }
  if (budgets.empty()) return table;
  table.columns.push_back({"part of the step"});
  for (const auto& [id, budget] : budgets) table.columns.push_back({id, true});
  const auto add_row = [&](const std::string& name, auto cell) {
    auto& row = table.rows.emplace_back(std::vector{name});
    for (const auto& [id, budget] : budgets) row.push_back(cell(*budget));
  };
  add_row("useful", [](const auto& budget) { return percent(budget.useful_percent); });
  for (std::size_t part = 0; part < budgets.front().second->parts.size(); ++part) {
    const std::string& name = budgets.front().second->parts[part].name;
    const bool in_program = name == "stragglers" || name == "communication";
    add_row(name, [&](const auto& budget) {
      const bool seen = part < budget.parts.size() && !(budget.fused && in_program);
      return seen ? percent(budget.parts[part].percent) : nothing;
    });
  }
  add_row("measured step, ms", [](const auto& budget) { return milliseconds(budget.measured_seconds); });
  add_row("ideal step, ms", [](const auto& budget) { return milliseconds(budget.ideal_seconds); });
  const auto any = [&](const auto& is) { return std::any_of(budgets.begin(), budgets.end(), is); };
  if (any([](const auto& b) { return b.second->fused; })) {
    table.caption += " A compiled step is one program: stragglers and communication are part of it.";
  }
  if (any([](const auto& b) { return !b.second->arrivals_measured && !b.second->fused; })) {
    table.caption += " Where arrivals were not measured, stragglers cannot be told from communication.";
  }
  return table;
}

Table phase_table(const Result& result) {
  using measure::RankPhases;
  Table table{.title = "Phases by rank",
              .caption =
                  "Mean milliseconds a step over all rounds. Communication contains waiting for stragglers "
                  "(arrival of the rank until the last rank's). Last: share of steps in which the rank "
                  "arrived last; late: mean time after the median rank.",
              .columns = {{"run"}, {"rank"}},
              .rows = {}};
  std::vector<std::pair<const char*, double RankPhases::*>> parts = {
      {"input", &RankPhases::input},
      {"forward", &RankPhases::forward},
      {"backward", &RankPhases::backward},
      {"communication", &RankPhases::communication},
      {"waiting", &RankPhases::straggler_wait},
      {"update", &RankPhases::update},
      {"host", &RankPhases::host},
      {"late", &RankPhases::lateness}};
  if (has_fused_steps(result)) {
    table.caption +=
        " Fused: forward, backward, collectives and update in one program, which shows no phases.";
    parts.insert(parts.begin() + 1, {"fused", &RankPhases::fused});
  }
  for (const auto& part : parts) table.columns.push_back({part.first, true});
  table.columns.push_back({"last", true});
  for (const auto& run : result.samples.runs) {
    const std::size_t ranks = run.rounds.empty() ? 0 : run.rounds.front().ranks.size();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto& row = table.rows.emplace_back(std::vector{run.plan.id, fmt::format("rank {}", rank)});
      for (const auto& [name, part] : parts) {
        row.push_back(is_seen(run, rank, part) ? milliseconds(mean_over_rounds(run, rank, part)) : nothing);
      }
      row.push_back(run.rounds.front().ranks[rank].arrival_measured
                        ? percent(100 * mean_over_rounds(run, rank, &RankPhases::last_arrivals))
                        : nothing);
    }
  }
  return table;
}

Table evaluation_table(const Result& result) {
  Table table{
      .title = "Evaluation",
      .caption = "On the test images; time is training time, evaluation left out.",
      .columns = {{"run"}, {"epoch", true}, {"training time", true}, {"loss", true}, {"accuracy", true}},
      .rows = {}};
  for (const auto& run : result.samples.runs) {
    for (const auto& e : run.evaluations) {
      table.rows.push_back({run.plan.id, std::to_string(e.epoch), duration(e.seconds),
                            fmt::format("{:.4f}", e.loss), fmt::format("{:.2f} %", e.accuracy * 100)});
    }
  }
  return table;
}

}  // namespace dtrain::report
