#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/log.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "history/writers.hpp"
#include "report/console.hpp"
#include "report/files.hpp"
#include "report/writer.hpp"

namespace dtrain::cli {

namespace {

namespace fs = std::filesystem;

// A result, its folder's history, or both.
struct Shown {
  std::optional<report::Result> result;
  std::optional<history::History> history;

  std::string file_name(const std::string& format) const {
    return result ? report::writers().at(format).value->file_name()
                  : history::writers().at(format).value.file_name;
  }

  std::string render(const std::string& format, const report::ConsoleStyle& style) const {
    if (!result) {
      return format == "console" ? history::to_console(*history, style)
                                 : history::writers().at(format).value.render(*history);
    }
    if (format == "console") {
      return report::render_header(*result, style) + report::render_report(*result, style) +
             (history ? history::to_console(*history, style) : "");
    }
    if (history && format == "html") return report::to_html(*result, history::html_part(*history));
    const std::string text = report::writers().at(format).value->render(*result);
    return history && format == "markdown" ? text + "\n" + history::to_markdown(*history) : text;
  }
};

// `skipped` is said once, on the side: a folder may hold other files.
history::History history_of(history::Collection collection) {
  const auto skipped = collection.skipped;
  history::History made = history::make_history(std::move(collection));
  if (!skipped.empty()) log_warning(made.notes.back());
  return made;
}

history::History history_alone(const std::vector<std::string>& paths) {
  history::History made = history_of(history::collect(paths));
  if (!made.machines.empty()) return made;
  throw data_error(fmt::format("{}: no complete result of dtrain", join(paths, ", ")),
                   made.notes.empty() ? "measure with `dtrain bench`" : made.notes.front());
}

// The formats that show a history beside a result; the others stay what programs read of the result.
bool shows_history(const std::string& format) {
  return format == "console" || format == "markdown" || format == "html";
}

// The newest complete one of dtrain itself, else the newest.
const report::Result& newest(const history::Collection& collection) {
  const auto is_ours = [](const history::Source& source) {
    return source.result.samples.complete && history::tool_of(source.result) == "dtrain";
  };
  const auto& sources = collection.sources;
  const auto found = std::find_if(sources.rbegin(), sources.rend(), is_ours);
  return found == sources.rend() ? sources.back().result : found->result;
}

// A folder stands for its result.json; without one, for the newest result below it.
Shown of_folder(const std::string& path, const std::vector<std::string>& formats) {
  const bool own = fs::exists(fs::path(path) / "result.json");
  if (own && std::ranges::none_of(formats, shows_history)) return {report::read_result(path), {}};
  Shown shown;
  if (own) shown.result = report::read_result(path);
  auto collection = history::collect({path});
  const bool many = collection.sources.size() > 1;
  if (!own) shown.result = newest(collection);
  if (many) shown.history = history_of(std::move(collection));
  if (shown.history && shown.history->machines.empty()) shown.history.reset();
  if (!own && shown.history && std::ranges::none_of(formats, shows_history)) shown.result.reset();
  return shown;
}

class ReportCommand final : public Command {
 public:
  std::string name() const override { return "report"; }
  std::string summary() const override {
    return "Renders saved results and their history as console, json, csv, markdown or html";
  }
  std::string footer() const override {
    return "RESULT is a result.json, or a folder that holds one. A folder with several results, at any "
           "depth, "
           "is a history:\nthe newest is followed by throughput and efficiency over time, with the points "
           "where they changed.\n\nExamples:\n"
           "  dtrain report results\n"
           "  dtrain report results --format markdown > summary.md\n"
           "  dtrain report results --format html,csv --out report\n"
           "  dtrain report results bench-results/peers --history --format json";
  }

  void declare(Flags& flags) override {
    flags.files("RESULT", "Result files or folders", paths_, true);
    flags.group("Output");
    flags.toggle("--history", "The history of all results alone, in any of the first five formats", history_);
    flags.value("--format", "LIST", fmt::format("Of {} [console]", join(report::writers().names(), ",")),
                [this](const std::string& text) {
                  formats_.clear();
                  for (const auto& part : split(text, ','))
                    formats_.push_back(report::writers().at(part).name);
                });
    flags.path("--out", "DIR", "Write files into this folder [to the screen]", out_);
  }

  ExitCode run(const std::string&) override {
    if (history_) {
      for (const auto& format : formats_) history::writers().at(format);
    }
    if (!out_.empty()) return write_files();
    if (formats_.size() > 1) {
      throw usage_error(
          fmt::format("--format {}: one format at a time goes to the screen", join(formats_, ",")),
          "give --out DIR to write several");
    }
    const auto style = report::console_style(STDOUT_FILENO);
    std::string text;
    for (const auto& shown : all_shown()) text += shown.render(formats_.front(), style);
    print_out(text);
    return ExitCode::fine;
  }

 private:
  std::vector<Shown> all_shown() const {
    std::vector<Shown> found;
    if (history_) {
      found.push_back({{}, history_alone(paths_)});
      return found;
    }
    for (const auto& path : paths_) {
      std::error_code error;
      found.push_back(fs::is_directory(path, error) ? of_folder(path, formats_)
                                                    : Shown{report::read_result(path), {}});
    }
    return found;
  }

  ExitCode write_files() const {
    if (paths_.size() > 1 && !history_) {
      throw usage_error(
          fmt::format("--out {}: {} results would overwrite each other there", out_, paths_.size()),
          "write one result at a time, or their --history");
    }
    report::open_outputs(out_, formats_);
    require_writable_directory(out_);
    const Shown shown = all_shown().front();
    std::size_t written = 0;
    for (const auto& format : formats_) {
      if (shown.file_name(format).empty()) continue;
      const fs::path path = fs::path(out_) / shown.file_name(format);
      write_atomically(path, shown.render(format, {}));
      log_info("wrote " + path.string());
      ++written;
    }
    if (written == 0) {
      throw usage_error(fmt::format("--format {} makes no file", join(formats_, ",")),
                        "use json, csv, markdown or html with --out");
    }
    return ExitCode::fine;
  }

  std::vector<std::string> paths_;
  std::vector<std::string> formats_{"console"};
  std::string out_;
  bool history_ = false;
};

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace dtrain::cli
