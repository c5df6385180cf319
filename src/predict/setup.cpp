#include "predict/setup.hpp"

#include <cmath>

#include "base/error.hpp"
#include "model/find_model.hpp"
#include "model/flops.hpp"
#include "predict/fitting_sweeps.hpp"

namespace dtrain::predict {

namespace {

void set_places(Setup& setup, const report::Result& result, const Measured& measured) {
  const bool gpus = result.device == "cuda";
  const int all = gpus ? static_cast<int>(result.machine.devices.size())
                       : result.machine.cores / std::max(1, result.options.threads_per_replica);
  setup.place = gpus ? "GPU" : "core";
  setup.places = std::max(1, all);
  // A CPU quota, or workers that each count the same cores: replicas then share before the cores are used up.
  int most = 1;
  bool shared = false;
  for (const auto& point : measured.points) {
    if (!point.simulated) most = std::max(most, point.placement.per_host());
    shared = shared || (point.simulated && point.placement.per_host() <= setup.places);
  }
  if (shared) setup.places = most;
}

double share_sent(const report::Result& result, const Point& point) {
  for (const auto& run : result.samples.runs) {
    if (run.plan.id != point.run || run.bytes_uncompressed == 0 || run.bytes_sent == 0) continue;
    return static_cast<double>(run.bytes_sent) / static_cast<double>(run.bytes_uncompressed);
  }
  return 1.0;
}

bool is_measured(const report::Result& result, const model::Model& model) {
  const std::string& known = result.model.fingerprint;
  return known.empty() ? model.name == result.model.name : model::fingerprint(model) == known;
}

// The layers that were measured, where they can still be had: a model file may be gone, or another by now.
std::optional<model::Model> measured_model(const report::Result& result) {
  const std::string& asked = result.options.model;
  try {
    model::Model model = model::find_model(model::is_model_file(asked) ? asked : result.model.name);
    if (is_measured(result, model)) return model;
  } catch (const Error&) {
  }
  return std::nullopt;
}

void set_exchange(Setup& setup, const report::Result& result, const Measured& measured) {
  const auto& options = result.options;
  setup.compresses = options.compress != "none";
  setup.can_overlap = (setup.largest.workers > 1 || result.device == "cuda") && options.sync_every == 1;
  Exchange& exchange = setup.exchange;
  exchange.overlap = setup.can_overlap && options.overlap;
  exchange.sync_every = options.sync_every;
  exchange.sent_share = share_sent(result, measured.points.back());
  setup.target_model = measured_model(result);
  if (setup.target_model && options.sync_every == 1) {
    exchange.buckets = buckets_of(*setup.target_model, options.bucket_mb);
  } else {
    exchange.buckets = one_bucket(static_cast<double>(result.model.parameters) * sizeof(float));
  }
}

void set_target(Setup& setup, const report::Result& result, const std::optional<model::Model>& asked) {
  setup.target_exchange = setup.exchange;
  if (!asked || is_measured(result, *asked)) return;
  const model::Model& target = *asked;
  setup.target_model = target;
  setup.another_model = true;
  if (!(result.model.training_flops_per_image > 0.0)) {
    throw usage_error(
        fmt::format("--model {}: the result does not say how many operations its own model takes",
                    target.name),
        "leave --model out, or measure again");
  }
  setup.target_work = model::training_flops(target) / result.model.training_flops_per_image;
  setup.target_exchange.buckets =
      setup.exchange.sync_every == 1
          ? buckets_of(target, result.options.bucket_mb)
          : one_bucket(static_cast<double>(target.parameter_count) * sizeof(float));
  setup.notes.push_back(fmt::format(
      "{} was not measured: its computation is that of {} x {:.3g}, by operations an image, as if both "
      "used the device equally well; a coarse guess",
      target.name, result.model.name, setup.target_work));
}

std::vector<LevelLaw> spanning_laws(const report::Result& result, bool& known) {
  const auto& options = result.options;
  const std::string& algorithm = options.allreduce;
  known = true;
  if (algorithm == "ring" || algorithm == "ring_chunked") return {ring()};
  if (algorithm == "halving_doubling") return {halving_doubling()};
  const bool cpu = result.device != "cuda";
  if (cpu && (options.comm == "auto" || options.comm == "gloo")) {
    return {as_gloo_chooses(), ring(), tree(), halving_doubling()};
  }
  known = false;
  return {ring(), tree(), halving_doubling()};
}

void set_laws(Setup& setup, const report::Result& result) {
  if (result.device == "cuda") {
    setup.local_laws = {ring(), tree()};
  } else if (setup.largest.workers > 1) {
    setup.local_laws = {sum_by_one()};
  } else {
    setup.local_laws = {shared_memory(), ring(), tree()};
  }
  setup.spanning_laws = spanning_laws(result, setup.law_known);
  if (setup.link) {  // another link, and perhaps another library
    setup.spanning_laws = {ring(), tree(), halving_doubling()};
    setup.law_known = false;
  }
  if (result.device != "cuda" && setup.largest.workers == 1) setup.law_known = true;  // within the process
}

void take_sweeps(Setup& setup, const report::Result& result, const std::vector<Sweep>& sweeps) {
  setup.sweeps = fitting_sweeps(sweeps, result, setup.largest.workers > 1, setup.notes);
  const bool within = std::any_of(setup.sweeps.begin(), setup.sweeps.end(),
                                  [](const Sweep& sweep) { return sweep.ranks > sweep.workers; });
  setup.runs_tell_local = setup.largest.per_worker() > 1 && !within;
}

void require_images(const Setup& setup, const Request& request) {
  if (!setup.strong) return;
  for (const int n : request.replicas) {
    if (n <= setup.global_images) continue;
    throw usage_error(
        fmt::format("--replicas {}: a global batch of {:.0f} images leaves none for some of them", n,
                    setup.global_images),
        fmt::format("ask for {:.0f} at most, or measure with --scaling weak", setup.global_images));
  }
}

}  // namespace

double Setup::load(const Placement& placement) const {
  return std::max(1.0, static_cast<double>(placement.per_host()) / places);
}

Placement Setup::place_replicas(int replicas) const {
  const auto groups = [&](int each) { return (replicas + each - 1) / each; };
  if (link) {
    const int hosts = groups(per_host.value_or(1));
    return {.replicas = replicas, .workers = hosts, .hosts = hosts};
  }
  if (largest.workers == 1) return {.replicas = replicas, .workers = 1, .hosts = 1};
  return {.replicas = replicas,
          .workers = groups(largest.per_worker()),
          .hosts = largest.hosts == 1 ? 1 : groups(largest.per_host())};
}

double Setup::images_of_replica(int replicas) const {
  return strong ? std::ceil(global_images / replicas) : replica_images;
}

double Setup::images(int replicas) const { return strong ? global_images : replica_images * replicas; }

// The others wait for each other in other ways: stages, layers, gathered weights, servers.
void require_all_reduce(const report::Result& result) {
  const std::string& strategy = result.options.strategy;
  constexpr std::array summing{"single", "mirrored", "multi-worker"};
  if (std::ranges::find(summing, strategy) != summing.end()) return;
  throw usage_error(
      fmt::format("--strategy {}: a prediction is of strategies that sum gradients by all-reduce", strategy),
      "give a result of --strategy mirrored or multi-worker");
}

Setup make_setup(const report::Result& result, const Measured& measured, const Request& request) {
  Setup setup;
  const Point& largest = measured.points.back();
  setup.strong = result.scaling == config::Scaling::strong;
  setup.global_images = largest.images;
  setup.replica_images = largest.images / largest.placement.replicas;
  setup.accumulate = std::max(1, result.options.accumulate);
  setup.largest = largest.placement;
  setup.link = request.link;
  take_sweeps(setup, result, request.sweeps);
  set_places(setup, result, measured);
  if (request.link) {
    int most = 1;
    for (const auto& point : measured.points) {
      if (setup.load(point.placement) <= 1.0) most = std::max(most, point.placement.per_host());
    }
    setup.per_host = request.per_host.value_or(most);
  }
  set_exchange(setup, result, measured);
  set_target(setup, result, request.model);
  set_laws(setup, result);
  require_images(setup, request);
  return setup;
}

}  // namespace dtrain::predict
