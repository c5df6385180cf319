#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/registry.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace dtrain::cli {

// What shell completion needs to know of a flag.
struct FlagEntry {
  std::vector<std::string> names;  // with their dashes; empty for a positional argument
  std::string summary;
  bool takes_value = false;
  bool is_path = false;
  bool repeatable = false;  // given twice, both count; else the last does
  std::vector<std::string> choices;
};

using TakeText = std::function<void(const std::string&)>;

// Declares one command's flags: parsing, help and completion all come from the same calls. A `take` function
// gets the text as typed and throws a usage error that names the flag.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}

  void group(const std::string& title) { group_ = title; }

  // `names` as CLI11 writes them: "--gpus,--replicas".
  void value(const std::string& names, const std::string& placeholder, const std::string& help,
             const TakeText& take);
  void path(const std::string& names, const std::string& placeholder, const std::string& help,
            std::string& target);
  void choice(const std::string& names, const std::vector<std::string>& choices, const std::string& help,
              const TakeText& take);
  // One of the choices, or the path of such a file.
  void choice_or_path(const std::string& names, const std::vector<std::string>& choices,
                      const std::string& file, const std::string& help, const TakeText& take);
  void repeated(const std::string& names, const std::string& placeholder, const std::string& help,
                const TakeText& take);
  // A flag that is on already also gets --no-NAME.
  void toggle(const std::string& name, const std::string& help, bool& target);
  void files(const std::string& name, const std::string& help, std::vector<std::string>& target,
             bool required);

  const std::vector<FlagEntry>& entries() const { return entries_; }
  // After parsing: the first names of flags that were given, on the command line or in a file, whatever their
  // value.
  std::set<std::string> given() const;

 private:
  FlagEntry& record(CLI::Option& option, const std::string& help);
  CLI::Option& add_value(const std::string& names, const std::string& placeholder, const std::string& help,
                         const TakeText& take);

  CLI::App& app_;
  std::string group_ = "Flags";
  std::vector<FlagEntry> entries_;
  std::vector<const CLI::Option*> options_;  // of entries_, in CLI11's hands
};

// "a|b|c", for help texts.
std::string listed(const std::vector<std::string>& choices);

// For a path that may be given as an argument or by its flag, but only once; empty when it was not given.
std::string only_path(const std::vector<std::string>& arguments, const std::string& flag_value,
                      const std::string& flag);

}  // namespace dtrain::cli
