#pragma once

#include "report/archive.hpp"
#include "report/result.hpp"

// `config` of `dtrain.result/1`: every option, its key the flag's with underscores.
namespace dtrain::report {

template <class A, class Items, class Fields>
void each(A& a, const std::string& key, Items& items, Fields fields, Need need = Need::required) {
  if constexpr (!A::saving) items.clear();
  a.list(
      key, items.size(),
      [&](auto& entry, std::size_t i) {
        if constexpr (!A::saving) items.emplace_back();
        fields(entry, items[i]);
      },
      need);
}

template <class A, class T>
void options_fields(A& a, T& o) {
  constexpr Need extra = Need::optional;
  a.value("strategy", o.strategy);
  a.value("threads_per_replica", o.threads_per_replica, extra, Range::positive);
  a.value("oversubscribe", o.oversubscribe, extra);
  a.value("batch_size", o.batch_size);
  a.value("global_batch", o.global_batch);
  a.value("accumulate", o.accumulate, extra, Range::positive);
  a.value("model", o.model);
  a.text(
      "precision", o.precision, [](auto p) { return config::name(p); }, config::parse_precision);
  a.value("optimizer", o.optimizer);
  a.value("lr", o.learning_rate);
  a.value("momentum", o.momentum, extra);
  a.value("weight_decay", o.weight_decay, extra);
  a.value("schedule", o.schedule, extra);
  a.value("warmup_epochs", o.warmup_epochs, extra);
  a.value("seed", o.seed);
  a.value("deterministic", o.deterministic, extra);
  a.value("data", o.data);
  a.value("shuffle", o.shuffle, extra, Range::not_negative);
  a.value("cache", o.cache, extra);
  a.value("prefetch", o.prefetch, extra, Range::not_negative);
  a.value("augment", o.augment, extra);
  a.text(
      "last_batch", o.last_batch, [](auto l) { return config::name(l); }, config::parse_last_batch, extra);
  a.value("bucket_mb", o.bucket_mb, extra);
  a.value("overlap", o.overlap, extra);
  a.value("comm", o.comm, extra);
  a.value("allreduce", o.allreduce, extra);
  a.value("compress", o.compress, extra);
  a.value("sync_every", o.sync_every, extra, Range::positive);
  a.value("outer_momentum", o.outer_momentum, extra);
  a.text(
      "updates", o.updates, [](auto u) { return config::name(u); }, config::parse_updates, extra);
  a.value("staleness", o.staleness);
  a.value("backup_workers", o.backup_workers, extra, Range::not_negative);
  a.value("servers", o.servers, extra, Range::positive);
  a.value("pipeline_stages", o.pipeline_stages);
  a.value("micro_batches", o.micro_batches);
  a.value("pipeline_schedule", o.pipeline_schedule, extra);
  a.value("cut", o.cut, extra);
  a.value("layer_costs", o.layer_costs, extra);
  a.value("zero_stage", o.zero_stage, extra, Range::positive);
  a.value("pjrt_plugin", o.pjrt_plugin, extra);
  a.value("memory_limit", o.memory_limit);
  a.text(
      "allocator", o.allocator, [](auto p) { return config::name(p); }, config::parse_allocator, extra);
  a.value("memory_growth", o.memory_growth, extra);
  a.value("cuda_graphs", o.cuda_graphs, extra);
  a.value("bases", o.bases, extra);
  a.value("warmup", o.warmup);
  a.value("steps", o.steps);
  a.value("rounds", o.rounds, extra, Range::not_negative);
  a.value("epochs", o.epochs, extra, Range::not_negative);
  a.value("target_accuracy", o.target_accuracy);
  a.value("checkpoint", o.checkpoint, extra);
  a.value("resume", o.resume, extra);
  a.value("out", o.out, extra);
  a.value("format", o.formats, extra);
  a.value("trace", o.trace, extra);
  a.value("quiet", o.quiet, extra);
  a.value("dry_run", o.dry_run, extra);
  a.value("baseline", o.baseline, extra);
  a.value("max_regress", o.max_regress, extra);
  each(
      a, "inject_delay", o.injected_delays,
      [](auto& entry, auto& delay) {
        entry.value("rank", delay.rank);
        entry.text(
            "phase", delay.phase, [](auto p) { return config::name(p); }, config::parse_phase);
        entry.value("ms", delay.milliseconds);
      },
      extra);
}

template <class A, class T>
void duration_field(A& a, const std::string& key, T& duration) {
  double seconds = duration.count();
  a.value(key, seconds, Need::optional);
  if constexpr (!A::saving) duration = Seconds{seconds};
}

template <class A, class T>
void tune_field(A& a, T& tune) {
  std::optional<double> seconds;
  if constexpr (A::saving) {
    if (tune) seconds = tune->count();
    a.value("tune", seconds);
  } else {
    a.value("tune", seconds);
    tune.reset();
    if (seconds) tune = Seconds{*seconds};
  }
}

// `--gpus 4` is 4, a list or range is an array, every device is null. `replicas` is the other spelling.
template <class A, class T>
void replicas_field(A& a, T& o) {
  if constexpr (A::saving) {
    for (const char* key : {"gpus", "replicas"}) {
      if (o.replicas.empty()) {
        a.value(key, std::optional<int>());
      } else if (o.replicas.size() == 1 && !o.replicas_swept) {
        a.value(key, o.replicas.front());
      } else {
        a.value(key, o.replicas);
      }
    }
  } else {
    const Json* found = a.find("gpus", Need::optional);
    o.replicas.clear();
    o.replicas_swept = found != nullptr && found->is_array();
    if (o.replicas_swept) return a.value("gpus", o.replicas, Need::optional, Range::positive);
    std::optional<int> one;
    a.value("gpus", one);
    if (one) o.replicas = {*one};
  }
}

template <class A, class T>
void config_fields(A& a, T& r) {
  if constexpr (!A::saving) r.options.out.clear();  // where nothing is said, nothing was written
  options_fields(a, r.options);
  replicas_field(a, r.options);
  duration_field(a, "min_time", r.options.min_time);
  duration_field(a, "timeout", r.options.timeout);
  tune_field(a, r.options.tune);
  duration_field(a, "rendezvous_timeout", r.options.rendezvous_timeout);
  a.value("device", r.device);
  a.text(
      "scaling", r.scaling, [](auto s) { return config::name(s); }, config::parse_scaling);
  if constexpr (!A::saving) r.options.scaling = r.scaling;
}

}  // namespace dtrain::report
