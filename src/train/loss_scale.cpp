#include "train/loss_scale.hpp"

#include <algorithm>

namespace dtrain::train {

void LossScale::step_succeeded() {
  if (++good_steps < growth_interval) return;
  good_steps = 0;
  scale = std::min(2.0 * scale, ceiling);
}

bool LossScale::step_overflowed() {
  good_steps = 0;
  if (scale <= floor) return false;
  scale = std::max(0.5 * scale, floor);
  return true;
}

}  // namespace dtrain::train
