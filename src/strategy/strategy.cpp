#include "strategy/strategy.hpp"

#include <algorithm>

#include "strategy/mirrored.hpp"
#include "strategy/parameter_server.hpp"
#include "strategy/single.hpp"

namespace dtrain::strategy {

// One rank, one whole model, one share of the images.
Assignment Strategy::assign(const AssignmentContext& context) const {
  const config::RunPlan& plan = *context.plan;
  Assignment assignment;
  assignment.share = context.rank;
  assignment.shares = plan.replicas;
  assignment.max_batch = *std::ranges::max_element(plan.replica_batch);
  return assignment;
}

const Registry<std::shared_ptr<const Strategy>>& strategies() {
  static const auto table = [] {
    Registry<std::shared_ptr<const Strategy>> filled("strategy");
    filled.add("single", "the plain loop on one device, without communication", make_single());
    filled.alias("OneDeviceStrategy", "single");
    filled.add("mirrored", "synchronous data parallelism on one machine: gradients summed over all replicas",
               make_mirrored());
    filled.alias("MirroredStrategy", "mirrored");
    filled.add("multi-worker", "the same over the workers of a job", make_multi_worker());
    filled.alias("MultiWorkerMirroredStrategy", "multi-worker");
    filled.add("parameter-server",
               "weights on servers, which replicas push gradients to and pull weights from",
               make_parameter_server());
    filled.alias("ParameterServerStrategy", "parameter-server");
    return filled;
  }();
  return table;
}

}  // namespace dtrain::strategy
