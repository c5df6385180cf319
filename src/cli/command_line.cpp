#include "cli/command_line.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/build_info.hpp"
#include "base/text.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"

namespace dtrain::cli {

namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

std::string overview(const Commands& commands) {
  std::string text =
      "dtrain measures how training scales from one device to many, and where the lost time goes.\n\n"
      "Usage: dtrain COMMAND [FLAGS]\n\n"
      "Commands:\n";
  for (const auto& command : commands)
    text += fmt::format("  {:<16} {}\n", command->name(), command->summary());
  text +=
      "\nStart here:\n"
      "  dtrain bench --strategy mirrored --gpus 4   1, 2 and 4 replicas in turns (on CPU cores where there "
      "is no GPU)\n"
      "  dtrain COMMAND --help                       what a command does and its flags\n\n"
      "Exit codes: 0 fine, 1 regression found, 2 usage, 3 environment, 4 data or result file, 5 the run "
      "failed,\n"
      "            6 cannot be compared, 130 interrupted.\n";
  return text;
}

std::string version() {
  const BuildInfo build = build_info();
  return fmt::format("dtrain {} ({}, {}, {}{})\n", build.version, build.commit, build.compiler,
                     build.build_type, build.sanitizers.empty() ? "" : ", sanitizers: " + build.sanitizers);
}

[[noreturn]] void refuse_command(const std::string& word, const std::vector<std::string>& known) {
  const auto close = nearest(word, known);
  throw usage_error(fmt::format("unknown command '{}'", word),
                    (close ? fmt::format("did you mean '{}'? ", *close) : std::string()) +
                        fmt::format("known: {}; `dtrain --help` says what they do", join(known, ", ")));
}

// Takes the command's one or two words off the front of `words`.
Command& take_command(const Commands& commands, std::vector<std::string>& words) {
  std::vector<std::string> firsts;
  std::vector<std::string> longer;  // commands that begin with the first word
  for (const auto& command : commands) {
    const auto name = split(command->name(), ' ');
    const bool first_fits = name.front() == words.front();
    if (first_fits && (name.size() == 1 || (words.size() > 1 && name[1] == words[1]))) {
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(name.size()));
      return *command;
    }
    if (first_fits) longer.push_back(command->name());
    if (firsts.empty() || firsts.back() != name.front()) firsts.push_back(name.front());
  }
  if (longer.empty()) refuse_command(words.front(), firsts);
  if (words.size() > 1) refuse_command(words[0] + " " + words[1], longer);
  throw usage_error(fmt::format("`dtrain {}` needs to know what to do", words.front()),
                    fmt::format("one of: {}", join(longer, ", ")));
}

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h" || word == "help"; }

std::string group_help(const Commands& commands, const std::string& first) {
  std::string text;
  for (const auto& command : commands) {
    if (command->name().starts_with(first + " ")) {
      text += fmt::format("  dtrain {:<16} {}\n", command->name(), command->summary());
    }
  }
  return text;
}

// Hands over what stands behind `--` to a command that starts another with it.
void hand_over(Command& command, std::vector<std::string>& words) {
  const auto separator = std::find(words.begin(), words.end(), "--");
  if (separator == words.end()) {
    if (std::any_of(words.begin(), words.end(), asks_for_help)) return;
    throw usage_error(fmt::format("`dtrain {}` needs `--` and then a command to start", command.name()),
                      fmt::format("write it behind the flags: dtrain {} ... -- bench ...", command.name()));
  }
  command.take_other({separator + 1, words.end()});
  words.erase(separator, words.end());
}

ExitCode answer_help(const Commands& commands, std::vector<std::string> words) {
  if (words.empty()) {
    print_out(overview(commands));
    return ExitCode::fine;
  }
  if (words.size() == 1) {
    if (const std::string group = group_help(commands, words.front()); !group.empty()) {
      print_out(group);
      return ExitCode::fine;
    }
  }
  print_out(help_text(take_command(commands, words)));
  return ExitCode::fine;
}

}  // namespace

ExitCode run(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const Commands commands = make_commands();
  if (words.empty()) return answer_help(commands, {});
  if (asks_for_help(words.front())) return answer_help(commands, {words.begin() + 1, words.end()});
  if (words.front() == "--version" || words.front() == "-V") {
    print_out(version());
    return ExitCode::fine;
  }
  if (words.front().starts_with('-')) {
    throw usage_error(fmt::format("'{}' stands where a command is needed", words.front()),
                      "write the command first: dtrain bench " + words.front());
  }
  if (words.size() == 2 && asks_for_help(words.back())) return answer_help(commands, {words.front()});

  std::vector<std::string> typed{"dtrain"};
  typed.insert(typed.end(), words.begin(), words.end());
  Command& command = take_command(commands, words);
  if (command.starts_another()) hand_over(command, words);
  std::string help;
  if (parse_arguments(command, words, help) == Parsed::help) {
    print_out(help);
    return ExitCode::fine;
  }
  return command.run(quote_for_shell(typed));
}

}  // namespace dtrain::cli
