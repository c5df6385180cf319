#include "strategy/strategy.hpp"

#include <algorithm>

#include "strategy/mirrored.hpp"
#include "strategy/open_strategies.hpp"
#include "strategy/parameter_server.hpp"
#include "strategy/pipeline.hpp"
#include "strategy/sharded.hpp"
#include "strategy/single.hpp"
#include "strategy/tensor.hpp"
#include "strategy/tpu.hpp"

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

OpenRegistry<std::shared_ptr<const Strategy>>& open_strategies() {
  static OpenRegistry<std::shared_ptr<const Strategy>> table([] {
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
    filled.add("pipeline", "the model cut into stages, one a device, that micro-batches pass one by one",
               make_pipeline());
    filled.add("sharded",
               "mirrored, with optimizer states, gradients and weights spread over the replicas (ZeRO)",
               make_sharded());
    filled.add(
        "tensor",
        "one model over all devices: each computes its own output channels of every layer, of all images",
        make_tensor());
    filled.alias("ModelParallel", "tensor");
    filled.add("tpu", "the whole step as one program of XLA on all devices of a PJRT plugin, TPUs above all",
               make_tpu());
    filled.alias("TPUStrategy", "tpu");
    return filled;
  }());
  return table;
}

const Registry<std::shared_ptr<const Strategy>>& strategies() { return open_strategies().get(); }

}  // namespace dtrain::strategy
