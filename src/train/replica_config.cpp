#include "train/replica_config.hpp"

#include <cmath>

namespace dtrain::train {

backend::ReplicaConfig replica_config(const ReplicaRequest& request) {
  const config::Options& options = *request.options;
  const config::RunPlan& plan = *request.plan;
  const strategy::Assignment& assignment = *request.assignment;
  const auto rank = static_cast<std::size_t>(request.rank);
  backend::ReplicaConfig replica;
  replica.model = assignment.part ? assignment.part->model.get() : request.model;
  replica.max_batch = assignment.max_batch;
  replica.gives_loss = assignment.gives_loss;
  replica.wants_input_gradient = assignment.wants_input_gradient;
  replica.sharded = assignment.sharded;
  replica.shares = assignment.sharded ? plan.replicas : 1;
  replica.zero_stage = assignment.zero_stage;
  replica.whole_gradients = assignment.whole_gradients;
  replica.replicas = assignment.devices;
  replica.slots = assignment.slots;
  replica.precision = options.precision;
  replica.optimizer = options.optimizer;
  replica.bucket_bytes = assignment.bucket_bytes > 0
                             ? assignment.bucket_bytes
                             : static_cast<std::size_t>(std::llround(options.bucket_mb * 1e6));
  replica.check_buckets = request.strategy->uses_collective();
  replica.device = plan.devices.empty() ? request.rank : plan.devices[rank];
  replica.allocator = options.allocator;
  replica.memory_growth = options.memory_growth;
  replica.memory_limit = options.memory_limit.value_or(0);
  replica.deterministic = options.deterministic;
  replica.graphs = options.cuda_graphs;
  if (!plan.cores.empty()) replica.cores = plan.cores[rank];
  replica.threads = options.threads_per_replica;
  return replica;
}

}  // namespace dtrain::train
