#pragma once

#include <compare>
#include <string>
#include <vector>

#include "backend/xla/graph.hpp"

namespace dtrain::backend::xla {

// What one call of the devices does.
enum class Pass {
  gradients,  // forward and backward of a micro-step
  step,       // the same, then the sum over devices and the update
  update,     // the sum over devices and the update alone; a gradient that is not finite leaves all as it was
  evaluate,   // forward, with running statistics
};

struct ProgramKind {
  Pass pass = Pass::step;
  bool first = true;    // gradients are overwritten, not added to
  bool masked = false;  // some images of a device's batch are padding
  bool floats = false;  // images are float32 and normalised, not bytes
  auto operator<=>(const ProgramKind&) const = default;
};

// Arguments and results come in groups, always in this order. The first four stay on the devices: a program
// that returns such a group takes it too, and writes the new values over the old.
enum class Group { weights, states, statistics, gradients, images, labels, mask, numbers, metrics };

// Of one device's part of a micro-step, f32.
enum class Metric {
  loss_sum,
  correct,
  own_finite,      // this device's gradients, before they met the others'
  sum_finite,      // all that the update used
  weights_finite,  // after the update
};
inline constexpr int metric_count = 5;

struct Program {
  std::string text;
  std::vector<Group> arguments;
  std::vector<Group> results;
  std::vector<int> result_counts;  // buffers a group, by result
};

// Types of a group's buffers on one device; none for a group that this target does not have.
std::vector<Type> group_types(const Target& target, Group group, bool floats = false);

Program write_program(Target target, const ProgramKind& kind);

}  // namespace dtrain::backend::xla
