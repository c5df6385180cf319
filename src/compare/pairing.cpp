#include "compare/pairing.hpp"

#include <algorithm>
#include <optional>

namespace dtrain::compare {

namespace {

using report::Result;
using Runs = std::vector<measure::RunSamples>;

const Runs& first_runs(const Side& side) { return side.results.front().samples.runs; }

bool has(const Runs& runs, const std::string& id) {
  return std::ranges::any_of(runs, [&](const auto& run) { return run.plan.id == id; });
}

bool share_a_name(const Runs& base, const Runs& next) {
  return std::ranges::any_of(base, [&](const auto& run) {
    return run.plan.base != config::RunPlan::Base::plain && has(next, run.plan.id);
  });
}

// The one run that could be this one under another strategy, or of another tool.
std::optional<std::string> only_alike(const Runs& runs, const config::RunPlan& plan) {
  std::optional<std::string> found;
  for (const auto& run : runs) {
    const config::RunPlan& other = run.plan;
    if (other.base != plan.base || other.replicas != plan.replicas || other.exact != plan.exact) continue;
    if (found) return std::nullopt;
    found = other.id;
  }
  return found;
}

// Its name on the new side.
std::optional<std::string> partner(const Runs& base, const Runs& next, const config::RunPlan& plan) {
  if (has(next, plan.id)) return plan.id;
  if (share_a_name(base, next) || !only_alike(base, plan)) return std::nullopt;
  return only_alike(next, plan);
}

// Where one result of a side lacks the run, there is none.
std::optional<std::vector<std::size_t>> find_runs(const Side& side, const std::string& id) {
  std::vector<std::size_t> found;
  for (const Result& result : side.results) {
    const Runs& runs = result.samples.runs;
    const auto run = std::ranges::find_if(runs, [&](const auto& one) { return one.plan.id == id; });
    if (run == runs.end()) return std::nullopt;
    found.push_back(static_cast<std::size_t>(run - runs.begin()));
  }
  return found;
}

}  // namespace

Pairing pair_up(const Side& base, const Side& next) {
  Pairing pairing;
  std::vector<std::string> taken;
  for (const auto& run : first_runs(base)) {
    const auto other = partner(first_runs(base), first_runs(next), run.plan);
    if (other) taken.push_back(*other);
    const auto mine = find_runs(base, run.plan.id);
    const auto theirs = other ? find_runs(next, *other) : std::nullopt;
    if (mine && theirs) {
      pairing.pairs.push_back({run.plan.id, *mine, *theirs});
    } else {
      pairing.missing.push_back(run.plan.id);
    }
  }
  for (const auto& run : first_runs(next)) {
    if (std::ranges::find(taken, run.plan.id) == taken.end()) pairing.added.push_back(run.plan.id);
  }
  return pairing;
}

}  // namespace dtrain::compare
