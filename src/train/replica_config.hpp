#pragma once

#include "backend/replica.hpp"
#include "config/plan.hpp"
#include "model/model.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::train {

struct ReplicaRequest {
  const model::Model* model = nullptr;  // the whole; outlives the replica, as does the assignment
  const config::Options* options = nullptr;
  const config::RunPlan* plan = nullptr;
  const strategy::Strategy* strategy = nullptr;
  const strategy::Assignment* assignment = nullptr;
  int rank = 0;
};

// What a rank asks its backend for.
backend::ReplicaConfig replica_config(const ReplicaRequest& request);

}  // namespace dtrain::train
