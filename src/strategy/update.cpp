#include "strategy/update.hpp"

namespace dtrain::strategy {

bool update_all(const RankContext& context, const kernels::OptimizerStep& step) {
  const backend::Range all{0, context.replica->weights().size()};
  if (context.loss_scaling && !context.replica->gradients_finite(all)) return false;
  return context.replica->update(all, step);
}

}  // namespace dtrain::strategy
