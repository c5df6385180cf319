#pragma once

#include <memory>

#include "cli/session.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::cli {

struct ReplicaOfRun {
  std::shared_ptr<const strategy::Assignment> assignment;  // which the configuration points into
  backend::ReplicaConfig config;
};

// Throws a usage error where the strategy cannot have such a rank.
ReplicaOfRun replica_of(const Session& session, const config::RunPlan& run, int rank);

// Refuses runs whose replicas do not fit into the memory they share.
void require_memory(const Session& session);

}  // namespace dtrain::cli
