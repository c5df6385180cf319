#include "cli/session_memory.hpp"

#include <algorithm>
#include <optional>

#include "base/text.hpp"
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

// Replicas of a run that share one memory: that of the machine this process is on, or the busiest device's.
int share_memory(const Session& session, const config::RunPlan& run) {
  if (run.devices.empty() && !run.workers.empty()) {
    const auto& workers = session.inventory.workers;
    const auto& here = workers.at(static_cast<std::size_t>(session.job.member->rank()) % workers.size()).host;
    return static_cast<int>(std::ranges::count_if(
        run.workers, [&](int worker) { return workers[static_cast<std::size_t>(worker)].host == here; }));
  }
  if (run.devices.empty() || session.backend->devices_share_memory()) return run.replicas;
  return static_cast<int>(std::ranges::count(run.devices, run.devices.front()));
}

// Runs take turns, so the replicas of all of them are in memory together.
int share_memory_with(const Session& session, const config::RunPlan& run) {
  if (session.plan.scaling != config::Scaling::weak) return share_memory(session, run);
  int together = 0;
  for (const auto& each : session.plan.runs) together += share_memory(session, each);
  return together;
}

bool fits(const Session& session) {
  return std::ranges::all_of(session.plan.runs, [&](const config::RunPlan& run) {
    const std::size_t allowed =
        backend::allowed_memory(share_memory_with(session, run), session.options.memory_limit.value_or(0),
                                session.inventory.free_memory);
    return allowed == 0 || replica_bytes(session, run) <= allowed;
  });
}

int shares_of(const Session& session, const config::RunPlan& run) {
  return strategy::strategies().at(run.strategy).value->shares(session.options, run.replicas);
}

// Of all runs, had this been given: as --global-batch where that was, else as --batch-size.
Session with_batch(const Session& session, int batch) {
  Session changed = session;
  const config::Options& options = session.options;
  const int largest = session.plan.runs.back().replicas;
  for (auto& run : changed.plan.runs) {
    const int replicas = session.plan.scaling == config::Scaling::weak ? run.replicas : largest;
    const int images = options.global_batch ? batch : batch * replicas * options.accumulate;
    config::deal_batch(run, images, options.accumulate, shares_of(session, run));
  }
  return changed;
}

// 0: none.
int largest_batch_that_fits(const Session& session) {
  const config::Options& options = session.options;
  int low = 1;  // images, one at least for every share
  for (const auto& run : session.plan.runs) {
    if (options.global_batch) low = std::max(low, shares_of(session, run) * options.accumulate);
  }
  int most = 0;
  int high = options.global_batch.value_or(options.batch_size.value_or(config::default_batch_size)) - 1;
  while (low <= high) {
    const int middle = low + (high - low) / 2;
    if (fits(with_batch(session, middle))) {
      most = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return most;
}

// Smaller micro-batches take less, where there are any; none: no number is enough.
std::optional<int> micro_batches_that_fit(const Session& session) {
  constexpr int most = 65536;
  Session changed = session;
  for (int count = 2; count <= std::min(session.plan.runs.back().global_batch, most); count *= 2) {
    changed.options.micro_batches = count;
    if (fits(changed)) return count;
  }
  return std::nullopt;
}

std::string advise(const Session& session) {
  std::vector<std::string> ways;
  if (const int batch = largest_batch_that_fits(session); batch > 0) {
    ways.push_back(fmt::format("the largest batch that fits is {} {}",
                               session.options.global_batch ? "--global-batch" : "--batch-size", batch));
  }
  if (const auto count = micro_batches_that_fit(session)) {
    ways.push_back(fmt::format("--micro-batches {} would do", *count));
  }
  return ways.empty() ? "not even one image fits: free memory, or raise --memory-limit" : join(ways, "; ");
}

}  // namespace

void require_memory(const Session& session) {
  for (const auto& run : session.plan.runs) {
    backend::require_memory(*session.backend, largest_replica(session, run).config,
                            share_memory_with(session, run), session.options.memory_limit.value_or(0),
                            session.inventory.free_memory, [&] { return advise(session); });
  }
}

std::size_t replica_bytes(const Session& session, const config::RunPlan& run) {
  return session.backend->estimate_memory(largest_replica(session, run).config);
}

}  // namespace dtrain::cli
