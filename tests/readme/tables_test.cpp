// The tables of README.md come from the registries and from the flags themselves. Where one differs the test
// shows how it should read; with DTRAIN_UPDATE_README set it writes it into the file instead.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "comm/communicator.hpp"
#include "compare/metric.hpp"
#include "compare/writers.hpp"
#include "kernels/optimizer.hpp"
#include "model/zoo.hpp"
#include "predict/link.hpp"
#include "report/writer.hpp"
#include "strategy/strategy.hpp"
#include "train/schedule.hpp"

namespace dtrain {
namespace {

std::string read_readme() {
  std::ifstream in(DTRAIN_README);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A cell of a Markdown table: a bar would end it.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

template <class Value>
std::string rows_of(const std::string& flag, const Registry<Value>& registry) {
  std::string text;
  for (const auto& entry : registry.entries()) {
    text += fmt::format("| {} | `{}` | {} |\n", text.empty() ? flag : "", entry.name, cell(entry.summary));
  }
  return text;
}

std::string choices_table() {
  return "| flag | name | what it is |\n|---|---|---|\n" + rows_of("`--strategy`", strategy::strategies()) +
         rows_of("`--model`", model::zoo()) + rows_of("`--optimizer`", kernels::optimizers()) +
         rows_of("`--schedule`", train::schedules()) + rows_of("`--comm`", comm::local_communicators()) +
         rows_of("`--format`", report::writers()) +
         rows_of("`--format` of `compare`, `ab`", compare::writers()) +
         rows_of("`--metric`", compare::metrics()) + rows_of("`--link`", predict::links());
}

std::string commands_table() {
  std::string text = "| command | does |\n|---|---|\n";
  for (const auto& command : cli::make_commands()) {
    text += fmt::format("| `{}` | {} |\n", command->name(), cell(command->summary()));
  }
  return text;
}

std::string flag_cell(const cli::FlagEntry& flag) {
  std::vector<std::string> names;
  for (const auto& name : flag.names) {
    const bool negation = name.starts_with("--no-") && names.size() == 1;
    if (negation) {
      names = {fmt::format("`--[no-]{}`", name.substr(5))};
    } else {
      names.push_back(fmt::format("`{}`", name));
    }
  }
  std::string text = join(names, ", ");
  if (!flag.choices.empty()) text += fmt::format(" `{}`", cell(join(flag.choices, "|")));
  return text;
}

// Rows of (flag, meaning), in the order of the commands, and which commands have them.
struct FlagRows {
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> commands;

  void add(const std::string& command, const cli::FlagEntry& flag, const std::string& meaning) {
    const std::pair<std::string, std::string> row{flag_cell(flag), cell(meaning)};
    if (!commands.contains(row)) order.push_back(row);
    commands[row].push_back(command);
  }
};

// Flags that read the same in several commands are one row, which names them. Some flags are another way to
// give an argument, and mean what it means.
std::string flags_table() {
  FlagRows rows;
  for (const auto& command : cli::make_commands()) {
    std::string argument;
    for (const auto& flag : cli::flags_of(*command)) {
      if (flag.names.empty()) {
        argument = flag.summary;
      } else {
        rows.add(command->name(), flag, flag.summary == "The same" ? argument : flag.summary);
      }
    }
  }
  std::string text = "| flag | meaning [default] | of |\n|---|---|---|\n";
  for (const auto& row : rows.order) {
    text += fmt::format("| {} | {} | {} |\n", row.first, row.second, join(rows.commands[row], ", "));
  }
  return text;
}

// The part of the README between `<!-- NAME -->` and `<!-- /NAME -->` is `expected`.
void expect_table(const std::string& name, const std::string& expected) {
  const std::string begin = fmt::format("<!-- {} -->\n", name);
  const std::string end = fmt::format("<!-- /{} -->", name);
  std::string readme = read_readme();
  const auto from = readme.find(begin);
  const auto to = readme.find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos && from < to)
      << "README.md has no part between " << begin << "and " << end;
  const std::size_t start = from + begin.size();
  if (std::getenv("DTRAIN_UPDATE_README") != nullptr) {
    readme.replace(start, to - start, expected);
    std::ofstream(DTRAIN_README) << readme;
    return;
  }
  EXPECT_EQ(readme.substr(start, to - start), expected)
      << "DTRAIN_UPDATE_README=1 in the environment of this test writes the table";
}

TEST(Readme, ListsTheCommands) { expect_table("commands", commands_table()); }
TEST(Readme, ListsEveryFlag) { expect_table("flags", flags_table()); }
TEST(Readme, ListsWhatIsRegistered) { expect_table("choices", choices_table()); }

TEST(Readme, StatesEveryExitCode) {
  const std::string readme = read_readme();
  for (const ExitCode code : {ExitCode::fine, ExitCode::usage, ExitCode::environment, ExitCode::data,
                              ExitCode::run, ExitCode::interrupted}) {
    EXPECT_NE(readme.find(fmt::format("\n| {} | ", static_cast<int>(code))), std::string::npos)
        << "exit code " << static_cast<int>(code);
  }
}

}  // namespace
}  // namespace dtrain
