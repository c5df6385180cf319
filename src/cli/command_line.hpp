#pragma once

#include "base/error.hpp"

namespace dtrain::cli {

// Parses the arguments, runs the command, prints results to stdout. Throws Error or Interrupted.
ExitCode run(int argc, const char* const* argv);

}  // namespace dtrain::cli
