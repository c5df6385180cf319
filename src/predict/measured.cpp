#include "predict/measured.hpp"

#include <cmath>
#include <set>

#include "base/error.hpp"
#include "stats/interval.hpp"
#include "stats/steadiness.hpp"

namespace dtrain::predict {

namespace {

using config::RunPlan;
using measure::RankPhases;
using measure::RoundSample;
using measure::RunSamples;

template <class Value>
double mean(const std::vector<RankPhases>& ranks, Value value) {
  double sum = 0.0;
  for (const auto& rank : ranks) sum += value(rank);
  return sum / static_cast<double>(ranks.size());
}

Parts parts_of(const RoundSample& round, bool arrivals) {
  const double step = round.seconds / round.steps;
  const double work = mean(
      round.ranks, [](const RankPhases& r) { return r.input + r.forward + r.backward + r.update + r.host; });
  const double communication = mean(round.ranks, [](const RankPhases& r) { return r.communication; });
  const double wait =
      arrivals ? mean(round.ranks, [](const RankPhases& r) { return r.straggler_wait; }) : 0.0;
  const double beyond_mean = std::max(0.0, step - work - communication);
  return {.computation = work,
          .backward = mean(round.ranks, [](const RankPhases& r) { return r.backward; }),
          .stragglers = wait + beyond_mean,
          .communication = std::max(0.0, communication - wait)};
}

bool arrivals_measured(const RunSamples& run) {
  if (run.plan.replicas == 1) return true;
  for (const auto& round : run.rounds) {
    for (const auto& rank : round.ranks) {
      if (!rank.arrival_measured) return false;
    }
  }
  return true;
}

// Empty if the run can be used.
std::string why_not(const RunSamples& run, const report::Result& result) {
  if (run.plan.base == RunPlan::Base::plain) return "the loop without a strategy";
  if (run.plan.strategy != result.options.strategy) return "another strategy";
  if (run.plan.exact) return "its sums are exact, which was not what was asked";
  if (!run.failure.empty()) return "it failed: " + run.failure;
  if (run.rounds.empty()) return "no round was measured";
  if (!run.weights_agree) return "its ranks ended with different weights";
  for (const auto& round : run.rounds) {
    if (std::cmp_not_equal(round.ranks.size(), run.plan.replicas))
      return "the phases of its ranks are not known";
  }
  return {};
}

void require_sound(const RunSamples& run, const std::string& file) {
  const auto bad = [&](const std::string& what) {
    return data_error(fmt::format("{}run {}: {}", file.empty() ? "" : file + ": ", run.plan.id, what),
                      "measure again: a prediction needs sound figures");
  };
  for (const auto& round : run.rounds) {
    if (round.steps <= 0 || !std::isfinite(round.seconds))
      throw bad("a round without steps or a finite time");
    for (const auto& r : round.ranks) {
      const double all[] = {r.input,  r.forward, r.backward,      r.communication,
                            r.update, r.host,    r.straggler_wait};
      for (const double value : all) {
        if (!std::isfinite(value)) throw bad("a phase that is not finite");
      }
      if (r.straggler_wait > r.communication * (1.0 + 1e-6) + 1e-9)
        throw bad("a wait longer than its communication");
    }
  }
}

Placement placement_of(const RunSamples& run, const report::ClusterInfo& cluster) {
  Placement placement{.replicas = run.plan.replicas, .workers = 1, .hosts = 1};
  const std::set<int> workers(run.plan.workers.begin(), run.plan.workers.end());
  if (workers.empty()) return placement;
  placement.workers = static_cast<int>(workers.size());
  std::set<std::string> hosts;
  for (const int worker : workers) {
    const auto index = static_cast<std::size_t>(worker);
    hosts.insert(index < cluster.tasks.size() ? cluster.tasks[index].host : std::to_string(worker));
  }
  placement.hosts = static_cast<int>(hosts.size());
  return placement;
}

Point point_of(const RunSamples& run, const report::Result& result) {
  Point point{.run = run.plan.id,
              .placement = placement_of(run, result.cluster),
              .simulated = run.plan.simulated,
              .images = 0.0,
              .replica_images = 0.0,
              .rounds = {}};
  double images = 0.0;
  double steps = 0.0;
  const bool arrivals = arrivals_measured(run);
  for (const auto& round : run.rounds) {
    point.rounds.push_back(parts_of(round, arrivals));
    images += static_cast<double>(round.images);
    steps += round.steps;
  }
  point.images = images / steps;
  const double shared = std::ceil(run.plan.global_batch / static_cast<double>(run.plan.replicas));
  point.replica_images = shared > 0.0 ? shared : point.images / run.plan.replicas;
  return point;
}

std::vector<double> relative_steps(const RunSamples& run) {
  std::vector<double> relative;
  for (const auto& round : run.rounds) {
    double sum = 0.0;
    for (const double seconds : round.step_seconds) sum += seconds;
    if (!(sum > 0.0)) continue;
    const double mean_step = sum / static_cast<double>(round.step_seconds.size());
    for (const double seconds : round.step_seconds) {
      if (std::isfinite(seconds)) relative.push_back(seconds / mean_step);
    }
  }
  std::sort(relative.begin(), relative.end());
  return relative;
}

void take(Measured& measured, const RunSamples& run, const report::Result& result, const std::string& file) {
  require_sound(run, file);
  measured.points.push_back(point_of(run, result));
  if (run.plan.replicas == 1) measured.noise = relative_steps(run);
  if (!arrivals_measured(run)) measured.arrivals_measured = false;
  if (!stats::judge(run).stable) measured.unsteady.push_back(run.plan.id);
}

bool holds(const Measured& measured, int replicas) {
  return std::any_of(measured.points.begin(), measured.points.end(),
                     [&](const Point& point) { return point.placement.replicas == replicas; });
}

double median_of(const std::vector<Parts>& rounds, double (*value)(const Parts&)) {
  std::vector<double> values;
  values.reserve(rounds.size());
  for (const auto& round : rounds) values.push_back(value(round));
  return stats::median(std::move(values));
}

}  // namespace

Measured take_measured(const report::Result& result, const std::string& file) {
  Measured measured;
  const RunSamples* plain = nullptr;
  for (const auto& run : result.samples.runs) {
    const bool usable_plain =
        run.plan.base == RunPlan::Base::plain && run.failure.empty() && !run.rounds.empty();
    if (usable_plain && run.rounds.front().ranks.size() == 1) plain = &run;
    std::string why = why_not(run, result);
    if (why.empty() && holds(measured, run.plan.replicas)) why = "another run of as many replicas is used";
    if (why.empty()) {
      take(measured, run, result, file);
    } else if (run.plan.base != RunPlan::Base::plain) {
      measured.left_out.push_back(fmt::format("{}: {}", run.plan.id, why));
    }
  }
  if (plain != nullptr && !holds(measured, 1)) take(measured, *plain, result, file);
  std::sort(measured.points.begin(), measured.points.end(),
            [](const Point& a, const Point& b) { return a.placement.replicas < b.placement.replicas; });
  for (const auto& point : measured.points) {
    const int rounds = static_cast<int>(point.rounds.size());
    measured.rounds = measured.rounds == 0 ? rounds : std::min(measured.rounds, rounds);
  }
  return measured;
}

Parts typical(const Point& point, const std::vector<double>& chosen) {
  std::vector<Parts> rounds;
  if (chosen.empty()) {
    rounds = point.rounds;
  } else {
    for (std::size_t i = 0; i < point.rounds.size(); ++i) {
      const double where = chosen[i % chosen.size()] * static_cast<double>(point.rounds.size());
      rounds.push_back(point.rounds[static_cast<std::size_t>(where)]);
    }
  }
  Parts parts{.computation = median_of(rounds, [](const Parts& p) { return p.computation; }),
              .backward = median_of(rounds, [](const Parts& p) { return p.backward; }),
              .stragglers = median_of(rounds, [](const Parts& p) { return p.stragglers; }),
              .communication = median_of(rounds, [](const Parts& p) { return p.communication; })};
  const double step = median_of(rounds, [](const Parts& p) { return p.step(); });
  const double scale = parts.step() > 0.0 ? step / parts.step() : 1.0;
  for (double* part : {&parts.computation, &parts.backward, &parts.stragglers, &parts.communication})
    *part *= scale;
  return parts;
}

}  // namespace dtrain::predict
