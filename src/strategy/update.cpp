#include "strategy/update.hpp"

namespace dtrain::strategy {

void update_all(const RankContext& context, const kernels::OptimizerStep& step) {
  context.replica->update({0, context.replica->weights().size()}, step, context.loss_scaling);
}

}  // namespace dtrain::strategy
