#include "cli/tune_candidates.hpp"

#include <algorithm>
#include <cmath>

#include "backend/buckets.hpp"
#include "base/text.hpp"
#include "comm/exchange.hpp"
#include "strategy/strategy.hpp"
#include "tune/space.hpp"

namespace dtrain::cli {

namespace {

using config::Options;

struct Value {
  std::string flag;  // empty: as it is
  std::function<void(Options&)> set;
};

// One flag; its first value is the one it has.
struct Dimension {
  std::vector<Value> values{{"", [](Options&) {}}};
};

constexpr double shares_of_gradients[] = {1.0 / 12, 1.0 / 6, 1.0 / 3, 2.0 / 3, 1.0};
constexpr int prefetches[] = {0, 1, 2, 4};

const config::RunPlan& largest_run(const Session& session) { return session.plan.runs.back(); }

// Replicas that take images of their own, and not devices that share a model.
bool sums_gradients(const Session& session) {
  const config::RunPlan& run = largest_run(session);
  const auto& driver = *strategy::strategies().at(run.strategy).value;
  return driver.uses_collective() && session.options.sync_every == 1 &&
         driver.shares(session.options, run.replicas) > 1;
}

// Of the canonical order of weights; a backend's padding seldom moves a border.
std::size_t buckets_of(const Session& session, double megabytes) {
  const model::Model& model = *session.model;
  std::vector<backend::Slot> slots;
  for (const auto& parameter : model.parameters) {
    slots.push_back({static_cast<int>(slots.size()), {parameter.offset, parameter.size}});
  }
  Options options = session.options;
  options.bucket_mb = megabytes;
  const config::RunPlan& run = largest_run(session);
  const std::size_t of_strategy =
      strategy::strategies()
          .at(run.strategy)
          .value->assign({.model = &model, .options = &options, .plan = &run, .rank = 0})
          .bucket_bytes;
  const auto bytes = of_strategy > 0 ? of_strategy : static_cast<std::size_t>(megabytes * 1e6);
  return backend::plan_buckets(model, slots, model.parameter_count, bytes).buckets.size();
}

// Three digits, rounded up: the last bucket is not to be a crumb.
double rounded_up(double megabytes) {
  const double unit = std::pow(10.0, std::floor(std::log10(megabytes)) - 2.0);
  return std::stod(fmt::format("{:.3g}", std::ceil(megabytes / unit) * unit));
}

// Sizes that cut the gradients into other numbers of buckets than the session's.
std::vector<double> other_bucket_sizes(const Session& session) {
  const double all = static_cast<double>(session.model->parameter_count * sizeof(float)) / 1e6;
  std::set<std::size_t> seen{buckets_of(session, session.options.bucket_mb)};
  std::vector<double> sizes;
  for (const double share : shares_of_gradients) {
    const double size = rounded_up(share * all);
    if (seen.insert(buckets_of(session, size)).second) sizes.push_back(size);
  }
  return sizes;
}

Dimension bucket_sizes(const Session& session) {
  Dimension dimension;
  if (!sums_gradients(session)) return dimension;
  for (const double size : other_bucket_sizes(session)) {
    dimension.values.push_back(
        {fmt::format("--bucket-mb {}", size), [size](Options& options) { options.bucket_mb = size; }});
  }
  return dimension;
}

Dimension overlap(const Session& session) {
  Dimension dimension;
  if (!sums_gradients(session)) return dimension;
  const bool other = !session.options.overlap;
  dimension.values.push_back(
      {other ? "--overlap" : "--no-overlap", [other](Options& options) { options.overlap = other; }});
  return dimension;
}

Dimension algorithms(const Session& session) {
  Dimension dimension;
  const config::RunPlan& run = largest_run(session);
  const bool spans = !run.workers.empty() && run.workers.front() != run.workers.back();
  const bool plain_sums = session.options.compress == "none";
  const bool collective = strategy::strategies().at(run.strategy).value->uses_collective();
  if (!spans || !plain_sums || !collective) return dimension;
  for (const auto& name : comm::allreduce_algorithms(session.options.comm)) {
    if (name == session.options.allreduce) continue;
    dimension.values.push_back(
        {"--allreduce " + name, [name](Options& options) { options.allreduce = name; }});
  }
  return dimension;
}

// Replicas of `threads` cores each have cores of their own.
bool have_cores(const Session& session, int threads) {
  Options options = session.options;
  options.threads_per_replica = threads;
  const int cores = static_cast<int>(std::ssize(session.inventory.cores));
  return threads <= cores &&
         !config::make_bench_plan(options, session.inventory, shares_of_strategy).runs.back().simulated;
}

Dimension threads(const Session& session) {
  Dimension dimension;
  if (session.inventory.device != "cpu" || largest_run(session).simulated) return dimension;
  for (int count = 1; have_cores(session, count); count *= 2) {
    if (count == session.options.threads_per_replica) continue;
    dimension.values.push_back({fmt::format("--threads-per-replica {}", count),
                                [count](Options& options) { options.threads_per_replica = count; }});
  }
  return dimension;
}

Dimension prefetch(const Session& session) {
  Dimension dimension;
  for (const int count : prefetches) {
    if (count == session.options.prefetch) continue;
    dimension.values.push_back(
        {fmt::format("--prefetch {}", count), [count](Options& options) { options.prefetch = count; }});
  }
  return dimension;
}

struct Searched {
  const char* flag;
  Dimension (*values)(const Session&);
};

constexpr Searched searched[] = {{"--bucket-mb", &bucket_sizes},
                                 {"--overlap", &overlap},
                                 {"--allreduce", &algorithms},
                                 {"--threads-per-replica", &threads},
                                 {"--prefetch", &prefetch}};

TuneCandidate candidate_of(const std::vector<Dimension>& dimensions, const tune::Choices& choices) {
  std::vector<std::string> flags;
  std::vector<std::function<void(Options&)>> setters;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == 0) continue;
    const Value& value = dimensions[i].values[static_cast<std::size_t>(choices[i])];
    flags.push_back(value.flag);
    setters.push_back(value.set);
  }
  return {join(flags, " "), [setters](Options& options) {
            for (const auto& set : setters) set(options);
          }};
}

}  // namespace

std::vector<TuneCandidate> tune_candidates(const Session& session, const std::set<std::string>& given) {
  std::vector<Dimension> dimensions;
  std::vector<int> sizes;
  for (const auto& [flag, values] : searched) {
    dimensions.push_back(given.contains(flag) ? Dimension{} : values(session));
    sizes.push_back(static_cast<int>(std::ssize(dimensions.back().values)));
  }
  const auto means_something = [&](const tune::Choices& choices) {
    constexpr std::size_t overlap_choice = 1;
    if (choices[overlap_choice] == 0) return true;
    Options options = session.options;
    candidate_of(dimensions, choices).set(options);
    return buckets_of(session, options.bucket_mb) > 1;
  };
  std::vector<TuneCandidate> candidates;
  for (const auto& choices : tune::arrange(sizes, session.options.seed, means_something)) {
    candidates.push_back(candidate_of(dimensions, choices));
  }
  return candidates;
}

Session with_candidate(const Session& session, const TuneCandidate& candidate) {
  Session changed = session;
  candidate.set(changed.options);
  candidate.set(changed.exact);
  changed.plan = config::make_bench_plan(changed.options, changed.inventory, shares_of_strategy);
  return changed;
}

}  // namespace dtrain::cli
