#include "compare/same_work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.hpp"

namespace dtrain::compare {

namespace {

using report::Result;
using Kind = Difference::Kind;

// Options that say what work is done.
constexpr std::array work_options{
    "accumulate",    "augment",           "backup_workers", "batch_size",
    "compress",      "global_batch",      "last_batch",     "lr",
    "model",         "momentum",          "optimizer",      "outer_momentum",
    "precision",     "scaling",           "schedule",       "seed",
    "shuffle",       "staleness",         "sync_every",     "threads_per_replica",
    "updates",       "warmup_epochs",     "weight_decay",   "pipeline_stages",
    "micro_batches", "pipeline_schedule", "zero_stage"};

// Options that change nothing in what is measured, or that the facts themselves tell better.
constexpr std::array silent_options{"baseline",   "bases",       "checkpoint", "data",
                                    "device",     "dry_run",     "epochs",     "format",
                                    "gpus",       "max_regress", "min_time",   "out",
                                    "quiet",      "replicas",    "resume",     "rendezvous_timeout",
                                    "rounds",     "steps",       "strategy",   "target_accuracy",
                                    "timeout",    "trace",       "tune",       "warmup",
                                    "layer_costs"};

template <class Names>
bool is_among(const Names& names, const std::string& key) {
  return std::ranges::find(names, key) != names.end();
}

class Collector {
 public:
  void add(const std::string& key, const std::string& base, const std::string& next, Kind kind = Kind::work) {
    if (base != next) found_.push_back({key, base, next, kind});
  }
  template <class Number>
  void add_number(const std::string& key, Number base, Number next, Kind kind = Kind::work) {
    add(key, fmt::format("{}", base), fmt::format("{}", next), kind);
  }
  std::vector<Difference> take() { return std::move(found_); }

 private:
  std::vector<Difference> found_;
};

// What a model computes counts, not what it is called or where its file lies. Results of versions that did
// not record it have its name alone.
bool tell_models(const Result& base, const Result& next) {
  return !base.model.fingerprint.empty() && !next.model.fingerprint.empty();
}

void collect_model(const Result& base, const Result& next, Collector& out) {
  if (!tell_models(base, next) || base.model.fingerprint == next.model.fingerprint) return;
  const auto told = [](const report::ModelInfo& model) {
    return fmt::format("{} of layers {}", model.name, model.fingerprint);
  };
  out.add("model", told(base.model), told(next.model));
}

void collect_options(const Result& base, const Result& next, Collector& out) {
  const auto mine = report::config_values(base);
  const auto theirs = report::config_values(next);
  for (const auto& [key, value] : mine) {
    const auto other = theirs.find(key);
    if (other == theirs.end() || is_among(silent_options, key)) continue;
    if (key == "model" && tell_models(base, next)) continue;
    out.add(key, value, other->second, is_among(work_options, key) ? Kind::work : Kind::configured);
  }
}

// Sums that are taken in another order change the last digits, and training carries them on.
double loss_tolerance(config::Precision precision) {
  return precision == config::Precision::fp32 ? 1e-3 : 2e-2;
}

constexpr std::size_t compared_losses = 5;

std::string listed(const std::vector<double>& losses) {
  if (losses.empty()) return "not recorded";
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(losses.size(), compared_losses); ++i) {
    words.push_back(fmt::format("{:.5g}", losses[i]));
  }
  return join(words, " ");
}

// Weights of asynchronous updates, and with them losses, depend on who came first.
void collect_losses(const Result& base, const measure::RunSamples& a, const Result& next,
                    const measure::RunSamples& b, Collector& out) {
  if (a.losses.empty() && b.losses.empty()) return;
  const bool ordered = base.options.updates == config::Updates::sync && base.options.backup_workers == 0;
  const std::size_t n = std::min({a.losses.size(), b.losses.size(), ordered ? compared_losses : 1});
  const double tolerance =
      std::max(loss_tolerance(base.options.precision), loss_tolerance(next.options.precision));
  bool alike = n > 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double scale = std::max(std::abs(a.losses[i]), std::abs(b.losses[i]));
    alike = alike && std::abs(a.losses[i] - b.losses[i]) <= tolerance * scale;
  }
  if (!alike) out.add(a.plan.id + ": losses of the first steps", listed(a.losses), listed(b.losses));
}

void collect_environment(const Result& base, const Result& next, Collector& out) {
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [name, value] : base.environment) both[name].first = value;
  for (const auto& [name, value] : next.environment) both[name].second = value;
  for (const auto& [name, values] : both) {
    out.add("environment." + name, values.first, values.second, Kind::configured);
  }
}

}  // namespace

std::vector<Difference> differences(const Result& base, const Result& next) {
  Collector out;
  out.add("machine.key", base.machine.key + " (" + base.machine.cpu + ")",
          next.machine.key + " (" + next.machine.cpu + ")");
  out.add("device", base.device, next.device);
  collect_model(base, next, out);
  out.add_number("model.parameters", base.model.parameters, next.model.parameters);
  out.add("dataset.checksum", base.dataset.checksum, next.dataset.checksum);
  out.add_number("dataset.images", base.dataset.images, next.dataset.images);
  out.add_number("workers", base.cluster.tasks.size(), next.cluster.tasks.size());
  collect_options(base, next, out);
  out.add("build.sanitizers", base.build.sanitizers, next.build.sanitizers);
  out.add("build.build_type", base.build.build_type, next.build.build_type, Kind::configured);
  out.add("build.version", base.build.version, next.build.version, Kind::configured);
  out.add("build.commit", base.build.commit, next.build.commit, Kind::configured);
  out.add("build.compiler", base.build.compiler, next.build.compiler, Kind::configured);
  collect_environment(base, next, out);
  out.add("machine.driver", base.machine.driver, next.machine.driver, Kind::configured);
  out.add("build.libraries", join(base.libraries, ", "), join(next.libraries, ", "), Kind::configured);
  return out.take();
}

std::vector<Difference> run_differences(const Result& base, const measure::RunSamples& a, const Result& next,
                                        const measure::RunSamples& b) {
  Collector out;
  const std::string& id = a.plan.id;
  out.add_number(id + ": replicas", a.plan.replicas, b.plan.replicas);
  out.add_number(id + ": global_batch", a.plan.global_batch, b.plan.global_batch);
  out.add(id + ": strategy", a.plan.strategy, b.plan.strategy, Kind::configured);
  out.add(id + ": division of the model", a.division, b.division, Kind::configured);
  out.add_number(id + ": simulated", a.plan.simulated, b.plan.simulated);
  collect_losses(base, a, next, b, out);
  return out.take();
}

}  // namespace dtrain::compare
