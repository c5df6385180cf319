#include "config/launch_environment.hpp"

#include <cstdlib>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/address.hpp"
#include "config/launchers.hpp"

namespace dtrain::config {

namespace {

// SLURM often starts one task a node, and another launcher the processes on it.
bool nested_in_slurm(const LaunchEnvironment& inner, const LaunchEnvironment& outer) {
  if (outer.source != "SLURM" || inner.world % outer.world != 0) return false;
  return inner.rank / (inner.world / outer.world) == outer.rank;
}

bool agree(const LaunchEnvironment& one, const LaunchEnvironment& other) {
  return one.rank == other.rank && one.world == other.world;
}

void require_agreement(const std::vector<Claim>& claims) {
  const auto& first = claims.front();
  if (first.place.evaluator) return;
  for (const auto& other : claims) {
    if (agree(first.place, other.place) || nested_in_slurm(first.place, other.place)) continue;
    throw usage_error(
        fmt::format("{} and {} disagree: rank {} of {} ({}) against rank {} of {} ({})", first.place.source,
                    other.place.source, first.place.rank, first.place.world, first.variables,
                    other.place.rank, other.place.world, other.variables),
        fmt::format("start the program with one launcher, unset the variables of the other, or say which to "
                    "believe with --launcher {}",
                    join(launchers().names(), ", ")));
  }
}

std::vector<Claim> read_claims(const Traces& traces) {
  const std::string& chosen = traces.flags.launcher;
  std::vector<Claim> claims;
  if (chosen == "none") return claims;
  if (chosen != "auto") {
    const auto& launcher = launchers().at(chosen);
    auto claim = launcher.value(traces);
    if (!claim) {
      throw usage_error(fmt::format("--launcher {}: it has not started this process", chosen),
                        fmt::format("it would set {}; use --launcher auto, or none for a single process",
                                    launcher.summary));
    }
    claims.push_back(std::move(*claim));
    return claims;
  }
  for (const auto& launcher : launchers().entries()) {
    if (auto claim = launcher.value(traces)) claims.push_back(std::move(*claim));
  }
  return claims;
}

// Nothing must make one process of many without a word.
void require_single(const Traces& traces) {
  if (traces.flags.launcher == "none") return;
  if (!traces.flags.rendezvous.empty()) {
    throw usage_error(
        fmt::format("--rendezvous {}: nothing says which rank of how many this is", traces.flags.rendezvous),
        "start the program with a launcher, or give --worker-hosts and --task-index");
  }
  if (const auto rank = traces.lookup("PMIX_RANK")) {
    throw usage_error(
        fmt::format("PMIX_RANK={} says that this process is one of several, but not of how many", *rank),
        "give --worker-hosts and --task-index, or --launcher none for a single process");
  }
}

// What the first does not say, others that agree with it may.
LaunchEnvironment merge(const std::vector<Claim>& claims) {
  LaunchEnvironment merged = claims.front().place;
  for (const auto& [variables, place] : claims) {
    if (!agree(merged, place) || merged.evaluator) continue;
    if (!merged.local_rank) merged.local_rank = place.local_rank;
    if (!merged.local_world) merged.local_world = place.local_world;
    if (merged.rendezvous.empty()) merged.rendezvous = place.rendezvous;
  }
  return merged;
}

void apply_rendezvous(LaunchEnvironment& found, const std::string& rendezvous) {
  if (rendezvous.empty()) return;
  if (const auto problem = why_no_address(rendezvous)) {
    throw usage_error(fmt::format("--rendezvous {}: {}", rendezvous, *problem),
                      "give host:port of rank 0, with a port from 1 to 65535");
  }
  const std::string listed = found.tasks.empty() ? "" : found.tasks.front().address;
  if (!listed.empty() && listed != rendezvous) {
    throw usage_error(
        fmt::format("--rendezvous {}: {} gives rank 0 the address {}", rendezvous, found.source, listed),
        "leave --rendezvous out");
  }
  found.rendezvous = rendezvous;
}

// MPI can tell the others where rank 0 is; the rest cannot.
void require_rendezvous(const LaunchEnvironment& found, const Claim& used) {
  const bool tells_later = found.source == "Open MPI" || found.source == "PMI";
  if (found.alone() || !found.rendezvous.empty() || tells_later) return;
  throw usage_error(fmt::format("{}: rank {} of {}, but nothing says where rank 0 is", used.variables,
                                found.rank, found.world),
                    "set MASTER_ADDR and MASTER_PORT, or give --rendezvous host:port");
}

[[noreturn]] void refuse_workers(const LaunchEnvironment& found, const Claim& used,
                                 const std::vector<std::string>& spanning) {
  const std::string servers =
      found.servers() > 0 ? fmt::format(" and {} parameter servers", found.servers()) : "";
  throw usage_error(
      fmt::format("{} describes {} workers{} ({}), but the strategy runs on one machine, in one process",
                  found.source, found.workers(), servers, used.variables),
      fmt::format(
          "start one process and ask for --replicas N, unset the variables of {}, or use a strategy that "
          "spans workers: {}",
          found.source, join(spanning, ", ")));
}

}  // namespace

int LaunchEnvironment::workers() const {
  return tasks.empty() ? world : static_cast<int>(tasks.size()) - servers();
}

int LaunchEnvironment::servers() const {
  return static_cast<int>(std::ranges::count(tasks, std::string("ps"), &Task::role));
}

EnvironmentLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

LaunchEnvironment read_launch_environment(const EnvironmentLookup& lookup, const ClusterFlags& flags,
                                          const std::vector<std::string>& spanning) {
  std::vector<std::string> notes;
  const Traces traces{lookup, flags, notes};
  const auto claims = read_claims(traces);
  LaunchEnvironment found;
  if (claims.empty()) {
    require_single(traces);
  } else {
    require_agreement(claims);
    found = merge(claims);
    const Claim& used = claims.front();
    if (found.world > 1 && !spanning.empty()) refuse_workers(found, used, spanning);
    apply_rendezvous(found, flags.rendezvous);
    require_rendezvous(found, used);
    notes.push_back(fmt::format("{}: rank {} of {}{}", used.variables, found.rank, found.world,
                                found.rendezvous.empty() ? "" : ", rank 0 at " + found.rendezvous));
  }
  found.notes = std::move(notes);
  return found;
}

}  // namespace dtrain::config
