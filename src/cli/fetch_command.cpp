#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "config/options.hpp"
#include "datasets/dataset.hpp"
#include "datasets/fetch.hpp"

namespace dtrain::cli {

namespace {

const char* doing(datasets::FetchStage stage) {
  switch (stage) {
    case datasets::FetchStage::download:
      return "downloading";
    case datasets::FetchStage::verify:
      return "verifying";
    case datasets::FetchStage::unpack:
      return "unpacking";
  }
  return "fetching";
}

class FetchCommand final : public Command {
 public:
  std::string name() const override { return "data fetch"; }
  std::string summary() const override {
    return "Downloads CIFAR-10, verifies and unpacks it; goes on where it stopped";
  }
  std::string footer() const override {
    return fmt::format(
        "Source: {}\nSHA-256: {}\nAn archive put into the folder by hand is used instead of the network.",
        config_.archive.url, config_.archive.sha256);
  }

  void declare(Flags& flags) override {
    config_.directory = datasets::default_directory();
    flags.files("DIR", "Folder for the archive and its files [dtrain in $XDG_DATA_HOME or ~/.local/share]",
                paths_, false);
    flags.path("--out", "DIR", "The same", out_);
    flags.value(
        "--timeout", "TIME", "Gives up when no byte has come for so long [30s]",
        [this](const std::string& text) { config_.stall = config::parse_duration(text, "--timeout"); });
    flags.toggle("--quiet", "No progress", quiet_);
  }

  ExitCode run(const std::string&) override {
    set_up_log(quiet_);
    if (const std::string path = only_path(paths_, out_, "--out DIR"); !path.empty())
      config_.directory = path;
    const InterruptGuard interrupt;
    config_.stop = &interrupt.stop();
    ProgressLine progress(quiet_);
    const auto fetched =
        datasets::fetch(config_, [&](datasets::FetchStage stage, std::uint64_t done, std::uint64_t total) {
          progress.show_bytes(doing(stage), done, total);
        });
    progress.clear();
    if (fetched.already_there) log_info("already there and verified");
    if (fetched.resumed_from > 0) {
      log_info(fmt::format("went on from {}", format_bytes(static_cast<double>(fetched.resumed_from))));
    }
    print_out(fetched.files.string() + "\n");
    return ExitCode::fine;
  }

 private:
  datasets::FetchConfig config_;
  std::vector<std::string> paths_;
  std::string out_;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_data_fetch_command() { return std::make_unique<FetchCommand>(); }

}  // namespace dtrain::cli
