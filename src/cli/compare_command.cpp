#include "base/log.hpp"
#include "cli/command.hpp"
#include "cli/comparison_output.hpp"
#include "config/options.hpp"

namespace dtrain::cli {

namespace {

class CompareCommand final : public Command {
 public:
  std::string name() const override { return "compare"; }
  std::string summary() const override {
    return "Judges whether a result is worse than another: the regression gate";
  }
  std::string footer() const override {
    return "BASE and NEW are a result.json, a folder that holds one, or a folder of several results: runs of "
           "one\n"
           "command, which show how much runs differ.\n\n"
           "Examples:\n"
           "  dtrain compare results/baseline results\n"
           "  dtrain compare old.json new.json --max-regress 3% --explain\n"
           "  dtrain compare old.json new.json --format markdown,junit --out verdict\n"
           "Exit 0: better or the same; 1: worse; 6: cannot tell, or cannot be compared; 4: a file is no "
           "result.";
  }

  void declare(Flags& flags) override {
    flags.files("RESULT", "BASE and NEW: result files or folders", paths_, true);
    declare_comparison_flags(flags, flags_);
    flags.group("Verdict");
    flags.value(
        "--between-runs", "RATE",
        "Standard deviation from one run of the program to the next, where the results do not show it [1%]",
        [this](const std::string& text) {
          flags_.config.between_runs = config::parse_rate(text, "--between-runs");
        });
  }

  ExitCode run(const std::string&) override {
    set_up_log(false);
    if (paths_.size() != 2) {
      throw usage_error(fmt::format("two results are needed, {} were given", paths_.size()),
                        "write: dtrain compare BASE NEW");
    }
    check_comparison_output(flags_);
    const auto comparison =
        compare::compare(compare::read_side(paths_[0]), compare::read_side(paths_[1]), flags_.config);
    deliver_comparison(comparison, flags_);
    return compare::exit_code(comparison);
  }

 private:
  std::vector<std::string> paths_;
  ComparisonFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_compare_command() { return std::make_unique<CompareCommand>(); }

}  // namespace dtrain::cli
