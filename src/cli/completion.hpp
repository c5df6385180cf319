#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"

namespace dtrain::cli {

// A script that a shell sources to complete commands, flags and their values. `shell` is bash, zsh or fish.
std::string completion_script(const std::string& shell,
                              const std::vector<std::unique_ptr<Command>>& commands);

}  // namespace dtrain::cli
