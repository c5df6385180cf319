#pragma once

#include "report/archive.hpp"
#include "report/config_fields.hpp"
#include "report/result.hpp"

// The fields of `dtrain.result/1`, each named once, for the Saver and the Loader alike. What
// results/README.md says is required is required here; derived values are optional, because a reader works
// them out again.
namespace dtrain::report {

// "rank 3", the way people say it.
inline std::string rank_name(int rank) { return fmt::format("rank {}", rank); }
inline int parse_rank_name(const std::string& text) {
  try {
    if (text.starts_with("rank ")) return std::stoi(text.substr(5));
  } catch (const std::exception&) {
  }
  throw data_error(fmt::format("is \"{}\", must be \"rank R\"", text), "");
}

inline std::string base_name(config::RunPlan::Base base) {
  return base == config::RunPlan::Base::plain ? "plain" : "strategy";
}
inline config::RunPlan::Base parse_base(const std::string& text) {
  if (text == "plain") return config::RunPlan::Base::plain;
  if (text == "strategy") return config::RunPlan::Base::strategy;
  throw data_error(fmt::format("is \"{}\", must be \"plain\", \"strategy\" or null", text), "");
}

template <class A, class T>
void interval_fields(A& a, T& interval) {
  a.value("median", interval.median);
  a.value("low", interval.low);
  a.value("high", interval.high);
}

// key, key_low, key_high; or null and key_reason.
template <class A, class T>
void flat_interval(A& a, const std::string& key, T& interval, std::string_view why) {
  if constexpr (A::saving) {
    if (!interval) return a.null(key, why);
    a.value(key, interval->median);
    a.value(key + "_low", interval->low);
    a.value(key + "_high", interval->high);
  } else {
    std::optional<double> median;
    a.value(key, median);
    interval.reset();
    if (!median) return;
    interval.emplace().median = *median;
    a.value(key + "_low", interval->low);
    a.value(key + "_high", interval->high);
  }
}

template <class A, class T>
void rank_fields(A& a, int rank, T& p) {
  constexpr Range measured = Range::not_negative;
  if constexpr (A::saving) a.value("name", rank_name(rank));
  a.object("phases", [&](auto& phases) {
    phases.value("input", p.input, Need::required, measured);
    phases.value("forward", p.forward, Need::required, measured);
    phases.value("backward", p.backward, Need::required, measured);
    phases.value("communication", p.communication, Need::required, measured);
    phases.value("update", p.update, Need::required, measured);
    phases.value("fused", p.fused, Need::optional);
    phases.value("host", p.host, Need::optional);
  });
  a.value("arrival_measured", p.arrival_measured, Need::optional);
  a.value("straggler_wait_seconds", p.straggler_wait, Need::optional, measured);
  a.value("last_arrivals_share", p.last_arrivals, Need::optional, measured);
  a.value("lateness_seconds", p.lateness, Need::optional);
}

template <class A, class T>
void round_fields(A& a, T& round) {
  a.value("images", round.images, Need::required, Range::positive);
  a.value("seconds", round.seconds, Need::required, Range::positive);
  a.value("wall_seconds", round.wall_seconds, Need::optional, Range::not_negative);
  a.value("steps", round.steps, Need::optional, Range::not_negative);
  a.value("warmup_steps", round.warmup_steps, Need::optional, Range::not_negative);
  a.value("calibration_seconds", round.calibration_seconds, Need::optional, Range::not_negative);
  if constexpr (!A::saving) round.ranks.clear();
  a.list(
      "ranks", round.ranks.size(),
      [&](auto& entry, std::size_t i) {
        if constexpr (!A::saving) round.ranks.emplace_back();
        rank_fields(entry, static_cast<int>(i), round.ranks[i]);
      },
      Need::optional);
  a.value("step_seconds", round.step_seconds, Need::optional, Range::not_negative);
}

// An object, or null and `<key>_reason`.
template <class A, class T, class Fields>
void optional_object(A& a, const std::string& key, T& value, std::string_view why, Fields fields) {
  if constexpr (A::saving) {
    if (!value) return a.null(key, why);
    a.object(key, [&](auto& inner) { fields(inner, *value); });
  } else {
    value.reset();
    a.object(
        key, [&](auto& inner) { fields(inner, value.emplace()); }, Need::optional);
  }
}

template <class A, class T>
void straggler_fields(A& a, T& straggler) {
  a.text("rank", straggler.rank, rank_name, parse_rank_name);
  a.text(
      "phase", straggler.phase, [](auto p) { return config::name(p); }, config::parse_phase);
  a.value("last_share", straggler.last_share);
  a.value("seconds_late", straggler.seconds_late);
}

template <class A, class T, class S>
void budget_fields(A& a, T& budget, S& straggler) {
  a.value("ideal_seconds", budget.ideal_seconds);
  a.value("measured_seconds", budget.measured_seconds);
  a.value("useful_percent", budget.useful_percent);
  each(a, "parts", budget.parts, [](auto& entry, auto& part) {
    entry.value("name", part.name);
    entry.value("seconds", part.seconds);
    entry.value("percent", part.percent);
  });
  a.value("arrivals_measured", budget.arrivals_measured);
  optional_object(a, "straggler", straggler,
                  budget.arrivals_measured ? "no rank stands out" : "arrivals were not measured",
                  [](auto& inner, auto& found) { straggler_fields(inner, found); });
}

template <class A, class T>
void plan_fields(A& a, T& plan) {
  a.value("id", plan.id);
  a.value("strategy", plan.strategy);
  if constexpr (A::saving) {
    if (plan.base == config::RunPlan::Base::none) {
      a.value("base", std::optional<int>());
    } else {
      a.value("base", base_name(plan.base));
    }
  } else {
    const Json* base = a.find("base", Need::required);
    plan.base = config::RunPlan::Base::none;
    if (!base->is_null()) a.text("base", plan.base, base_name, parse_base);
  }
  a.value("exact", plan.exact, Need::optional);
  a.value("replicas", plan.replicas, Need::required, Range::positive);
  a.value("simulated", plan.simulated);
  a.value("simulated_reason", plan.simulated_reason, Need::optional);
  a.value("global_batch", plan.global_batch, Need::optional, Range::not_negative);
  a.value("replica_batch", plan.replica_batch, Need::optional, Range::not_negative);
  a.value("workers", plan.workers, Need::optional, Range::not_negative);
  a.value("devices", plan.devices, Need::optional, Range::not_negative);
  a.value("cores", plan.cores, Need::optional, Range::not_negative);
}

template <class A, class T>
void noise_fields(A& a, T& noise) {
  a.value("foreign_load_cores", noise.foreign_load, Need::optional);
  a.value("stolen_cores", noise.stolen, Need::optional);
  a.value("throttled_seconds", noise.throttled_seconds, Need::optional);
  a.value("calibration_spread", noise.calibration_spread, Need::optional);
  each(
      a, "devices", noise.devices,
      [](auto& entry, auto& device) {
        entry.value("device", device.device, Need::required, Range::not_negative);
        entry.value("clock_mhz", device.clock_mhz, Need::optional);
        entry.value("highest_clock_mhz", device.highest_clock_mhz, Need::optional);
        entry.value("celsius", device.celsius, Need::optional);
        entry.value("watts", device.watts, Need::optional);
        entry.value("watts_limit", device.watts_limit, Need::optional);
        entry.value("slowed_by", device.slowed_by, Need::optional);
        entry.value("other_processes", device.other_processes, Need::optional);
        entry.value("other_bytes", device.other_bytes, Need::optional);
      },
      Need::optional);
}

// The mean, and how often each value was seen.
template <class A, class T>
void staleness_fields(A& a, T& staleness) {
  if constexpr (A::saving) {
    if (!staleness)
      return a.null("staleness", "synchronous updates: each uses the gradients of its own step");
    a.value("staleness", staleness->mean());
    a.value("staleness_counts", staleness->counts);
  } else {
    std::optional<double> mean;
    a.value("staleness", mean);
    staleness.reset();
    if (mean) a.value("staleness_counts", staleness.emplace().counts, Need::optional);
  }
}

template <class A, class T>
void samples_fields(A& a, T& run) {
  each(a, "rounds", run.rounds, [](auto& entry, auto& round) { round_fields(entry, round); });
  each(
      a, "evaluations", run.evaluations,
      [](auto& entry, auto& evaluation) {
        entry.value("epoch", evaluation.epoch);
        entry.value("seconds", evaluation.seconds, Need::required, Range::not_negative);
        entry.value("loss", evaluation.loss);
        entry.value("accuracy", evaluation.accuracy);
      },
      Need::optional);
  a.value("losses", run.losses, Need::optional);
  each(
      a, "rank_memory", run.rank_memory,
      [](auto& entry, auto& memory) {
        entry.value("allocated_bytes", memory.allocated);
        entry.value("peak_bytes", memory.peak);
        entry.value("weights_bytes", memory.weights);
        entry.value("gradients_bytes", memory.gradients);
        entry.value("optimizer_bytes", memory.optimizer);
        entry.value("activations_bytes", memory.activations);
      },
      Need::optional);
  each(
      a, "facts", run.facts,
      [](auto& entry, auto& fact) {
        entry.value("name", fact.name);
        entry.value("value", fact.value);
        entry.value("unit", fact.unit);
        entry.value("meaning", fact.meaning);
      },
      Need::optional);
  a.value("division", run.division, Need::optional);
  a.value("weights_hash", run.weights_hash, Need::optional);
  a.value("weights_agree", run.weights_agree, Need::optional);
  a.value("skipped_steps", run.skipped_steps, Need::optional);
  a.value("bytes_sent", run.bytes_sent, Need::optional);
  a.value("bytes_uncompressed", run.bytes_uncompressed, Need::optional);
  a.value("dropped_gradients", run.dropped_gradients, Need::optional);
  a.object(
      "memory",
      [&](auto& memory) {
        memory.value("replica_bytes", run.replica_bytes, Need::optional);
        memory.value("replica_peak_bytes", run.replica_peak_bytes, Need::optional);
      },
      Need::optional);
  a.object(
      "noise", [&](auto& noise) { noise_fields(noise, run.noise); }, Need::optional);
  a.value("stamp_seconds", run.stamp_seconds, Need::optional);
  a.value("stamps_per_step", run.stamps_per_step, Need::optional);
  a.value("failure", run.failure, Need::optional);
  a.value("notes", run.notes, Need::optional);
  if constexpr (A::saving) {
    a.value("steps_per_rank", std::vector<std::uint64_t>(run.plan.replicas, run.measured_steps));
    staleness_fields(a, run.staleness);
  } else {
    std::vector<std::uint64_t> steps;
    a.value("steps_per_rank", steps, Need::optional);
    staleness_fields(a, run.staleness);
    run.measured_steps = steps.empty() ? 0 : steps.front();
  }
}

template <class A, class T>
void percentile_fields(A& a, T& step_seconds) {
  for (auto [key, value] : {std::pair("p50", &step_seconds.p50), std::pair("p95", &step_seconds.p95),
                            std::pair("p99", &step_seconds.p99)}) {
    double milliseconds = *value * 1e3;
    a.value(key, milliseconds);
    if constexpr (!A::saving) *value = milliseconds / 1e3;
  }
}

template <class A, class T>
void summary_fields(A& a, T& s, std::string_view why_no_budget) {
  constexpr Need derived = Need::optional;
  const std::string why = s.efficiency_reason.empty() ? "not worked out" : s.efficiency_reason;
  a.object(
      "images_per_second", [&](auto& inner) { interval_fields(inner, s.images_per_second); }, derived);
  a.object(
      "step_ms", [&](auto& inner) { percentile_fields(inner, s.step_seconds); }, derived);
  a.object(
      "mean_step_seconds", [&](auto& inner) { interval_fields(inner, s.mean_step_seconds); }, derived);
  flat_interval(a, "speedup", s.speedup, why);
  flat_interval(a, "efficiency", s.efficiency, why);
  flat_interval(a, "efficiency_against_plain", s.efficiency_against_plain, why);
  if constexpr (!A::saving) a.value("efficiency_reason", s.efficiency_reason, derived);
  optional_object(a, "budget", s.budget, why_no_budget,
                  [&](auto& inner, auto& budget) { budget_fields(inner, budget, s.straggler); });
  a.value("measuring_share", s.measuring_share, derived);
  a.value("model_flops_per_second", s.model_flops_per_second, derived);
  a.value("peak_share", s.peak_share, "the peak of the device is not known, or replicas share it");
  a.value("model_bytes_per_second", s.model_bytes_per_second, derived);
  a.value("bandwidth_share", s.bandwidth_share, "the memory bandwidth is not known, or replicas share it");
  a.value("stable", s.steadiness.stable, derived);
  a.value("unstable_reasons", s.steadiness.reasons, derived);
}

template <class A, class T>
void machine_fields(A& a, T& machine) {
  a.value("key", machine.key);
  a.value("cpu", machine.cpu);
  a.value("cores", machine.cores, Need::required, Range::not_negative);
  a.value("memory", machine.memory);
  a.value("devices", machine.devices);
  a.value("driver", machine.driver);
}

template <class A, class T>
void cluster_fields(A& a, T& cluster) {
  a.value("launcher", cluster.launcher);
  each(a, "tasks", cluster.tasks, [](auto& entry, auto& task) {
    entry.value("role", task.role);
    entry.value("index", task.index, Need::required, Range::not_negative);
    entry.value("address", task.address);
    entry.value("host", task.host);
    entry.value("joined_seconds", task.joined_seconds, Need::optional);
  });
}

template <class A, class T>
void build_fields(A& a, T& r) {
  a.value("version", r.build.version);
  a.value("commit", r.build.commit);
  a.value("compiler", r.build.compiler);
  a.value("build_type", r.build.build_type, Need::optional);
  a.value("sanitizers", r.build.sanitizers, Need::optional);
  a.value("libraries", r.libraries);
}

}  // namespace dtrain::report
