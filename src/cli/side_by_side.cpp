#include "cli/side_by_side.hpp"

#include <algorithm>

#include "strategy/strategy.hpp"

namespace dtrain::cli {

namespace {

constexpr const char* spanning_mirrored = "multi-worker";  // in one process it is what mirrored is

bool has_servers(const Job& job) {
  if (job.alone()) return true;  // they are in this process
  return std::ranges::any_of(job.member->peers(), [](const auto& peer) { return peer.role == "ps"; });
}

// Empty where it can be measured.
std::string why_not(const std::string& name, const config::Options& options, const Job& job,
                    const std::string& device) {
  const strategy::Strategy& strategy = *strategy::strategies().at(name).value;
  if (!strategy.runs_on(device)) return fmt::format("does not run on --device {}", device);
  if (!job.alone() && !strategy.spans_workers()) return "trains in one process alone";
  if (strategy.uses_servers() && !has_servers(job)) return "the job has no parameter server";
  config::Options alone = options;
  alone.strategy = name;
  try {
    strategy.check(alone);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

std::string leading_strategy(const config::Options& options) {
  return options.strategy == all_strategies ? spanning_mirrored : options.strategy;
}

SideBySide choose_strategies(const config::Options& options, const Job& job, const std::string& device) {
  SideBySide chosen;
  for (const auto& name : strategy::strategies().names()) {
    const bool drives_one = strategy::strategies().at(name).value->max_replicas() == 1;
    if (drives_one || (job.alone() && name == spanning_mirrored)) continue;
    const std::string why = why_not(name, options, job, device);
    if (why.empty()) {
      chosen.strategies.push_back(name);
    } else {
      chosen.left_out.push_back(fmt::format("{}: {}", name, why));
    }
  }
  return chosen;
}

}  // namespace dtrain::cli
