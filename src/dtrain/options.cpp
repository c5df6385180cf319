#include "dtrain/options.hpp"

#include <algorithm>

#include "cli/arguments.hpp"
#include "cli/output.hpp"
#include "cli/training_flags.hpp"

namespace dtrain {

namespace {

class LoopFlags final : public cli::Command {
 public:
  LoopFlags(std::string name, std::string summary) : name_(std::move(name)), summary_(std::move(summary)) {}

  std::string name() const override { return name_; }
  std::string summary() const override { return summary_; }
  void declare(cli::Flags& flags) override {
    cli::declare_world_flags(flags, options_);
    cli::declare_cluster_flags(flags, options_);
    cli::declare_training_flags(flags, options_);
    cli::declare_data_flags(flags, options_);
    flags.group("Epochs");
    flags.value("--epochs", "E", fmt::format("Times through the training set [{}]", options_.epochs),
                [this](const std::string& text) {
                  options_.epochs = config::parse_integer(text, "--epochs", 1, 1'000'000);
                });
    flags.group("Output");
    flags.toggle("--quiet", "No progress, only warnings and results", options_.quiet);
  }
  ExitCode run(const std::string&) override { return ExitCode::fine; }

  const Options& options() const { return options_; }

 private:
  std::string name_;
  std::string summary_;
  Options options_;
};

}  // namespace

std::optional<Options> read_options(int argc, const char* const* argv, const std::string& summary) {
  const std::string path = argc > 0 ? argv[0] : "program";
  LoopFlags flags(path.substr(path.rfind('/') + 1), summary);
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  std::string help;
  if (cli::parse_arguments(flags, words, help) == cli::Parsed::help) {
    cli::print_out(help);
    return std::nullopt;
  }
  return flags.options();
}

}  // namespace dtrain
