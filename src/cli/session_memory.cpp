#include "cli/session_memory.hpp"

#include <algorithm>

#include "train/replica_config.hpp"

namespace dtrain::cli {

ReplicaOfRun replica_of(const Session& session, const config::RunPlan& run, int rank) {
  const auto& driver = strategy::strategies().at(run.strategy).value;
  ReplicaOfRun replica;
  replica.assignment = std::make_shared<const strategy::Assignment>(driver->assign(
      {.model = session.model.get(), .options = &session.options, .plan = &run, .rank = rank}));
  replica.config = train::replica_config({.model = session.model.get(),
                                          .options = &session.options,
                                          .plan = &run,
                                          .strategy = driver.get(),
                                          .assignment = replica.assignment.get(),
                                          .rank = rank});
  return replica;
}

namespace {

// The one that takes most memory: replicas of the whole model are all alike, and the first has most images.
ReplicaOfRun largest_replica(const Session& session, const config::RunPlan& run) {
  ReplicaOfRun largest = replica_of(session, run, 0);
  if (!largest.assignment->part) return largest;
  std::size_t most = session.backend->estimate_memory(largest.config);
  for (int rank = 1; rank < run.replicas; ++rank) {
    ReplicaOfRun replica = replica_of(session, run, rank);
    if (!replica.assignment->contributes) break;  // copies of those before
    const std::size_t bytes = session.backend->estimate_memory(replica.config);
    if (bytes <= most) continue;
    most = bytes;
    largest = std::move(replica);
  }
  return largest;
}

// Replicas of a run that share one memory: that of the machine this process is on, or the busiest GPU's.
int share_memory(const Session& session, const config::RunPlan& run) {
  if (run.devices.empty() && !run.workers.empty()) {
    const auto& workers = session.inventory.workers;
    const auto& here = workers.at(static_cast<std::size_t>(session.job.member->rank()) % workers.size()).host;
    return static_cast<int>(std::ranges::count_if(
        run.workers, [&](int worker) { return workers[static_cast<std::size_t>(worker)].host == here; }));
  }
  if (run.devices.empty()) return run.replicas;
  return static_cast<int>(std::ranges::count(run.devices, run.devices.front()));
}

}  // namespace

// Runs take turns, so the replicas of all of them are in memory together.
void require_memory(const Session& session) {
  const std::size_t limit = session.options.memory_limit.value_or(0);
  const bool weak = session.plan.scaling == config::Scaling::weak;
  int together = 0;
  for (const auto& run : session.plan.runs) together += share_memory(session, run);
  for (const auto& run : session.plan.runs) {
    backend::require_memory(*session.backend, largest_replica(session, run).config,
                            weak ? together : share_memory(session, run), limit,
                            session.inventory.free_memory);
  }
}

std::size_t replica_bytes(const Session& session, const config::RunPlan& run) {
  return session.backend->estimate_memory(largest_replica(session, run).config);
}

}  // namespace dtrain::cli
