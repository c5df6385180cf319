#pragma once

#include <functional>

#include "base/error.hpp"

namespace dtrain {

// A main function's whole body: what it throws is printed, an error as a line that names the culprit and one
// that says what to do, and becomes the exit code.
int run_program(const std::function<ExitCode()>& body);

// All commands of dtrain, with what add_strategy and add_model have added.
ExitCode run_command_line(int argc, const char* const* argv);

}  // namespace dtrain
