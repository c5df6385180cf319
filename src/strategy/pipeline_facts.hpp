#pragma once

#include <vector>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Where stages begin: "cut at conv2:48"; empty for one stage.
std::string pipeline_division(const AssignmentContext& context);

// Where the model is cut, how even the stages are, the bubble by theory and as measured, and activations a
// stage. What `samples` do not hold is left out.
std::vector<measure::Fact> pipeline_facts(const AssignmentContext& context,
                                          const measure::RunSamples& samples);

}  // namespace dtrain::strategy
