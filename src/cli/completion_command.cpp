#include "cli/command.hpp"
#include "cli/completion.hpp"
#include "cli/output.hpp"

namespace dtrain::cli {

namespace {

class CompletionCommand final : public Command {
 public:
  std::string name() const override { return "completion"; }
  std::string summary() const override {
    return "Prints the completion script of a shell: bash, zsh or fish";
  }
  std::string footer() const override { return "Example:\n  source <(dtrain completion bash)"; }
  void declare(Flags& flags) override { flags.files("SHELL", "bash, zsh or fish", shells_, true); }

  ExitCode run(const std::string&) override {
    if (shells_.size() != 1) throw usage_error("one shell at a time", "dtrain completion bash");
    print_out(completion_script(shells_.front(), make_commands()));
    return ExitCode::fine;
  }

 private:
  std::vector<std::string> shells_;
};

}  // namespace

std::unique_ptr<Command> make_completion_command() { return std::make_unique<CompletionCommand>(); }

}  // namespace dtrain::cli
