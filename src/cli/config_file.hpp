#pragma once

#include <string>
#include <vector>

#include "cli/flags.hpp"

namespace dtrain::cli {

// Reads a TOML or INI file whose keys are the command's flags without dashes (`batch-size` or `batch_size`);
// keys may stand in a section named after the command. Returns them as arguments, without those flags that
// `given` holds already. An unknown key is a usage error that names file, key and the nearest known one.
std::vector<std::string> read_config_file(const std::string& path, const std::string& command,
                                          const std::vector<FlagEntry>& flags,
                                          const std::vector<std::string>& given);

}  // namespace dtrain::cli
