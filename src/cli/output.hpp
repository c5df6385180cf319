#pragma once

#include <string>

namespace dtrain::cli {

// Writes results to stdout at once. Environment error when they cannot be written (a full disk behind a
// redirection), so that a lost result is never exit 0.
void print_out(const std::string& text);

}  // namespace dtrain::cli
