#pragma once

namespace dtrain::train {

// Dynamic loss scaling (Micikevicius et al. 2018): the loss is multiplied by `scale` before backward so that
// small fp16 gradients do not vanish. A pure state machine, fed with what all ranks saw alike.
struct LossScale {
  static constexpr double initial = 65536.0;
  static constexpr double floor = 1.0;
  static constexpr double ceiling = 16777216.0;
  static constexpr int growth_interval = 2000;  // good steps before the scale doubles

  double scale = initial;
  int good_steps = 0;

  void step_succeeded();
  // Halves. False when the scale was at its floor, so that scaling cannot be the reason.
  bool step_overflowed();
};

}  // namespace dtrain::train
