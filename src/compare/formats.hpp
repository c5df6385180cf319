#pragma once

#include <string>

#include "compare/comparison.hpp"

namespace dtrain::compare {

std::string to_markdown(const Comparison& comparison);

// `dtrain.comparison/1`, described in results/README.md. Strict JSON.
std::string to_json(const Comparison& comparison);

// One suite: a failure is a regression, an error is an answer that could not be had, of which the first is
// the comparison itself where the sides cannot be compared.
std::string to_junit(const Comparison& comparison);

// Workflow commands, one a line: ::error, ::warning and ::notice.
std::string to_github(const Comparison& comparison);

}  // namespace dtrain::compare
