#include <unistd.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "report/console.hpp"
#include "report/files.hpp"
#include "report/writer.hpp"

namespace dtrain::cli {

namespace {

std::string render(const report::Result& result, const std::string& format) {
  if (format != "console") return report::writers().at(format).value->render(result);
  const auto style = report::console_style(STDOUT_FILENO);
  return report::render_header(result, style) + report::render_report(result, style);
}

class ReportCommand final : public Command {
 public:
  std::string name() const override { return "report"; }
  std::string summary() const override {
    return "Renders saved results as console, json, csv, markdown or html";
  }
  std::string footer() const override {
    return "RESULT is a result.json, or a folder that holds one.\n\nExamples:\n"
           "  dtrain report results\n"
           "  dtrain report results --format markdown > summary.md\n"
           "  dtrain report results --format html,csv --out report";
  }

  void declare(Flags& flags) override {
    flags.files("RESULT", "Result files or folders", paths_, true);
    flags.group("Output");
    flags.value("--format", "LIST", fmt::format("Of {} [console]", join(report::writers().names(), ",")),
                [this](const std::string& text) {
                  formats_.clear();
                  for (const auto& part : split(text, ','))
                    formats_.push_back(report::writers().at(part).name);
                });
    flags.path("--out", "DIR", "Write files into this folder [to the screen]", out_);
  }

  ExitCode run(const std::string&) override {
    if (!out_.empty()) return write_files();
    if (formats_.size() > 1) {
      throw usage_error(
          fmt::format("--format {}: one format at a time goes to the screen", join(formats_, ",")),
          "give --out DIR to write several");
    }
    std::string text;
    for (const auto& path : paths_) text += render(report::read_result(path), formats_.front());
    print_out(text);
    return ExitCode::fine;
  }

 private:
  ExitCode write_files() const {
    if (paths_.size() > 1) {
      throw usage_error(
          fmt::format("--out {}: {} results would overwrite each other there", out_, paths_.size()),
          "write one result at a time");
    }
    report::open_outputs(out_, formats_);
    const auto written = report::write_outputs(out_, formats_, report::read_result(paths_.front()));
    if (written.empty()) {
      throw usage_error(fmt::format("--format {} makes no file", join(formats_, ",")),
                        "use json, csv, markdown or html with --out");
    }
    for (const auto& path : written) log_info("wrote " + path.string());
    return ExitCode::fine;
  }

  std::vector<std::string> paths_;
  std::vector<std::string> formats_{"console"};
  std::string out_;
};

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace dtrain::cli
