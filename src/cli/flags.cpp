#include "cli/flags.hpp"

#include <CLI/CLI.hpp>

#include "base/text.hpp"

namespace dtrain::cli {

std::string listed(const std::vector<std::string>& choices) { return join(choices, "|"); }

FlagEntry& Flags::record(CLI::Option& option, const std::string& help) {
  FlagEntry entry;
  for (const auto& name : option.get_lnames()) entry.names.push_back("--" + name);
  entry.summary = help;
  entries_.push_back(std::move(entry));
  options_.push_back(&option);
  return entries_.back();
}

std::set<std::string> Flags::given() const {
  std::set<std::string> names;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (options_[i]->count() > 0 && !entries_[i].names.empty()) names.insert(entries_[i].names.front());
  }
  return names;
}

CLI::Option& Flags::add_value(const std::string& names, const std::string& placeholder,
                              const std::string& help, const TakeText& take) {
  CLI::Option* option = app_.add_option_function<std::string>(names, take, help);
  option->type_name(placeholder)->group(group_)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return *option;
}

void Flags::value(const std::string& names, const std::string& placeholder, const std::string& help,
                  const TakeText& take) {
  record(add_value(names, placeholder, help, take), help).takes_value = true;
}

void Flags::path(const std::string& names, const std::string& placeholder, const std::string& help,
                 std::string& target) {
  const std::string flag = split(names, ',').front();
  const auto take = [&target, flag](const std::string& text) {
    if (text.empty()) throw usage_error(flag + ": '' is not a path", "give the path of a file or folder");
    target = text;
  };
  FlagEntry& entry = record(add_value(names, placeholder, help, take), help);
  entry.takes_value = true;
  entry.is_path = true;
}

void Flags::choice(const std::string& names, const std::vector<std::string>& choices, const std::string& help,
                   const TakeText& take) {
  FlagEntry& entry = record(add_value(names, listed(choices), help, take), help);
  entry.takes_value = true;
  entry.choices = choices;
}

void Flags::choice_or_path(const std::string& names, const std::vector<std::string>& choices,
                           const std::string& file, const std::string& help, const TakeText& take) {
  FlagEntry& entry = record(add_value(names, listed(choices) + "|" + file, help, take), help);
  entry.takes_value = true;
  entry.is_path = true;
  entry.choices = choices;
}

void Flags::repeated(const std::string& names, const std::string& placeholder, const std::string& help,
                     const TakeText& take) {
  const auto take_all = [take](const std::vector<std::string>& texts) {
    for (const auto& text : texts) take(text);
  };
  CLI::Option* option = app_.add_option_function<std::vector<std::string>>(names, take_all, help);
  option->type_name(placeholder)
      ->group(group_)
      ->type_size(1)
      ->expected(1, CLI::detail::expected_max_vector_size);
  option->allow_extra_args(false);
  FlagEntry& entry = record(*option, help);
  entry.takes_value = true;
  entry.repeatable = true;
}

void Flags::toggle(const std::string& name, const std::string& help, bool& target) {
  const std::string names = target ? fmt::format("{},!--no-{}", name, name.substr(2)) : name;
  CLI::Option* option = app_.add_flag(names, target, help);
  option->group(group_)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  record(*option, help);
}

void Flags::files(const std::string& name, const std::string& help, std::vector<std::string>& target,
                  bool required) {
  CLI::Option* option = app_.add_option(name, target, help);
  option->type_name("")->required(required);
  FlagEntry& entry = record(*option, help);
  entry.takes_value = true;
  entry.is_path = true;
}

std::string only_path(const std::vector<std::string>& arguments, const std::string& flag_value,
                      const std::string& flag) {
  const std::size_t given = arguments.size() + (flag_value.empty() ? 0 : 1);
  if (given > 1) {
    throw usage_error(fmt::format("one path is needed, {} were given", given),
                      fmt::format("give it once, or with {}", flag));
  }
  return arguments.empty() ? flag_value : arguments.front();
}

}  // namespace dtrain::cli
