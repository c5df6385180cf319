#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/flags.hpp"

namespace dtrain::cli {

// One subcommand. A fresh one is made for every run of the program: flags are bound to its members.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;  // "bench", "data fetch"
  virtual std::string summary() const = 0;
  virtual std::string footer() const { return {}; }  // examples, below the flags
  virtual void declare(Flags& flags) = 0;
  // Of a command that starts another one: takes the words behind `--`, which are not its own flags.
  virtual bool starts_another() const { return false; }
  virtual void take_other(std::vector<std::string> /*words*/) {}
  // Of a command to which a flag given is not the same as its default left alone: takes Flags::given.
  virtual void take_given(std::set<std::string> /*flags*/) {}
  // `command_line` runs it again, quoted for a shell. Results go to stdout.
  virtual ExitCode run(const std::string& command_line) = 0;
};

// In the order of help.
std::vector<std::unique_ptr<Command>> make_commands();

std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_train_command();
std::unique_ptr<Command> make_verify_command();
std::unique_ptr<Command> make_launch_command();
std::unique_ptr<Command> make_allreduce_command();
std::unique_ptr<Command> make_compare_command();
std::unique_ptr<Command> make_ab_command();
std::unique_ptr<Command> make_predict_command();
std::unique_ptr<Command> make_report_command();
std::unique_ptr<Command> make_data_generate_command();
std::unique_ptr<Command> make_data_fetch_command();
std::unique_ptr<Command> make_data_inspect_command();
std::unique_ptr<Command> make_info_command();
std::unique_ptr<Command> make_completion_command();

}  // namespace dtrain::cli
