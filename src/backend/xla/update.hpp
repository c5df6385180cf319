#pragma once

#include <array>
#include <string>
#include <vector>

#include "backend/xla/writer.hpp"
#include "kernels/optimizer.hpp"

namespace dtrain::backend::xla {

// The numbers of a step that a program takes as an input, so that none is compiled again when they change.
enum class Number {
  gradient_scale,
  unscale,
  rate,   // learning rate, with adam's correction of the first moment
  decay,  // learning rate times weight decay
  first_kept,
  first_new,
  second_kept,
  second_new,
  root_scale,
  epsilon,
};
inline constexpr int number_count = 10;
using Numbers = std::array<float, number_count>;

// Worked out in double precision, as the CPU backend's optimizers do. Throws a usage error for an optimizer
// that has no lowering, naming those that have one.
Numbers step_numbers(const std::string& optimizer, const kernels::OptimizerStep& step, float gradient_scale);

// New weights, then new states. `numbers` are f32 scalars by Number.
std::vector<Value> write_update(Writer& writer, const std::string& optimizer, const Value& weights,
                                const std::vector<Value>& states, const Value& gradient,
                                const std::vector<Value>& numbers);

}  // namespace dtrain::backend::xla
