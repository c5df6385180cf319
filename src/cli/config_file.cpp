#include "cli/config_file.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>

#include "base/text.hpp"

namespace dtrain::cli {

namespace {

std::vector<CLI::ConfigItem> read_items(const std::string& path) {
  std::ifstream file(path);
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    throw usage_error(fmt::format("--config {}: cannot be read, or is empty", path),
                      "give a file of lines such as `batch-size = 128`");
  }
  try {
    return CLI::ConfigTOML().from_config(file);
  } catch (const CLI::Error& error) {
    throw usage_error(fmt::format("--config {}: {}", path, error.what()),
                      "write lines such as `batch-size = 128`");
  }
}

std::string flag_for(const std::string& key) {
  std::string flag = "--" + key;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

const FlagEntry* find_flag(const std::vector<FlagEntry>& flags, const std::string& name) {
  for (const auto& flag : flags) {
    if (std::find(flag.names.begin(), flag.names.end(), name) != flag.names.end()) return &flag;
  }
  return nullptr;
}

bool is_given(const FlagEntry& flag, const std::vector<std::string>& arguments) {
  return std::any_of(flag.names.begin(), flag.names.end(), [&](const std::string& name) {
    const std::string negated = "--no-" + name.substr(2);
    return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
      return argument == name || argument == negated || argument.starts_with(name + "=");
    });
  });
}

[[noreturn]] void refuse_key(const std::string& path, const std::string& key,
                             const std::vector<FlagEntry>& flags) {
  std::vector<std::string> known;
  for (const auto& flag : flags) {
    for (const auto& name : flag.names) known.push_back(name.substr(2));
  }
  const auto close = nearest(flag_for(key).substr(2), known);
  throw usage_error(
      fmt::format("--config {}: unknown key '{}'", path, key),
      close ? fmt::format("did you mean '{}'?", *close) : "keys are the command's flags without dashes");
}

}  // namespace

std::vector<std::string> read_config_file(const std::string& path, const std::string& command,
                                          const std::vector<FlagEntry>& flags,
                                          const std::vector<std::string>& given) {
  std::vector<std::string> arguments;
  for (const auto& item : read_items(path)) {
    if (item.name == "++" || item.name == "--") continue;  // CLI11's marks of a section's ends
    if (!item.parents.empty() && item.parents != std::vector<std::string>{command}) {
      throw usage_error(fmt::format("--config {}: section [{}] is not for `dtrain {}`", path,
                                    join(item.parents, "."), command),
                        fmt::format("put keys before any section, or under [{}]", command));
    }
    const std::string name = flag_for(item.name);
    const FlagEntry* flag = find_flag(flags, name);
    if (flag == nullptr || name == "--config") refuse_key(path, item.name, flags);
    if (is_given(*flag, given)) continue;
    if (flag->repeatable && !item.inputs.empty() && item.inputs.front().find(',') != std::string::npos) {
      for (const auto& input : item.inputs) arguments.push_back(fmt::format("{}={}", name, input));
    } else {
      arguments.push_back(
          fmt::format("{}={}", name, join(item.inputs, ",")));  // [1, 2, 4] and 1,2,4 are the list "1,2,4"
    }
  }
  return arguments;
}

}  // namespace dtrain::cli
