#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"

namespace dtrain::cli {

enum class Parsed { run, help };

// Parses `arguments` (without the program's and the command's names) into the command's members. Usage errors
// name the flag and the nearest known one. With Parsed::help, `help` holds the text asked for. A --config
// FILE among them is read first: what the command line says wins.
Parsed parse_arguments(Command& command, const std::vector<std::string>& arguments, std::string& help);

std::string help_text(Command& command);
std::vector<FlagEntry> flags_of(Command& command);

// Words joined so that a POSIX shell reads them back.
std::string quote_for_shell(const std::vector<std::string>& words);

}  // namespace dtrain::cli
