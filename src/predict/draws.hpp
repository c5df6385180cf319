#pragma once

#include <vector>

#include "predict/step_model.hpp"

namespace dtrain::predict {

// What was measured, once as it is and many times with its rounds drawn anew (bootstrap; the rounds of all
// runs together, because what the machine did in a turn it did to all).
std::vector<Observation> observe(const Measured& measured, const std::vector<double>& chosen = {});

// One model for each draw. Figures that nothing measured says how good they are (a preset link, another
// model) vary, too.
std::vector<StepModel> draw_models(const Setup& setup, const Law& law, const ExpectedMaximum& maximum,
                                   const Measured& measured);

// By how much more than the draws a prediction from `rounds` rounds may be off: few rounds vary more than
// they show (Student's t), and the benchmark that it is held against varies as well.
double widening(int rounds);

struct Spread {
  double low = 1.0;
  double high = 1.0;
};

// 95 % of the draws around `value`, as factors of it, widened.
Spread spread_of(std::vector<double> draws, double value, double widen);

}  // namespace dtrain::predict
