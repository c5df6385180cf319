#include "cli/comparison_output.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "cli/output.hpp"
#include "compare/metric.hpp"
#include "compare/writers.hpp"
#include "config/options.hpp"

namespace dtrain::cli {

namespace {

bool on_screen(const std::string& format) { return compare::writers().at(format).value->file_name().empty(); }

std::string render(const compare::Comparison& comparison, const std::string& format, bool explain) {
  if (format != "console") return compare::writers().at(format).value->render(comparison);
  return compare::render_console(comparison, report::console_style(STDOUT_FILENO), explain);
}

void take_metrics(std::vector<std::string>& metrics, const std::string& text) {
  metrics.clear();
  if (text == "all") {
    metrics = compare::metrics().names();
    return;
  }
  for (const auto& part : split(text, ',')) {
    const std::string& name = compare::metrics().at(part).name;
    if (std::ranges::find(metrics, name) == metrics.end()) metrics.push_back(name);
  }
}

}  // namespace

void declare_comparison_flags(Flags& flags, ComparisonFlags& target) {
  flags.group("Verdict");
  flags.value("--max-regress", "RATE",
              fmt::format("Loss that is let pass [{:g}%]", 100.0 * target.config.gate.max_regress),
              [&target](const std::string& text) {
                target.config.gate.max_regress = config::parse_rate(text, "--max-regress");
              });
  flags.value(
      "--metric", "LIST",
      fmt::format("What is judged: all, or of {} [images_per_second]", join(compare::metrics().names(), ",")),
      [&target](const std::string& text) { take_metrics(target.config.metrics, text); });
  flags.toggle("--force", "Judge even where the sides did not do the same work, and say so",
               target.config.force);
  flags.toggle("--explain", "Show the arithmetic of every answer", target.explain);
  flags.group("Output");
  flags.value("--format", "LIST", fmt::format("Of {} [console]", join(compare::writers().names(), ",")),
              [&target](const std::string& text) {
                target.formats.clear();
                for (const auto& part : split(text, ',')) {
                  target.formats.push_back(compare::writers().at(part).name);
                }
              });
  flags.path("--out", "DIR", "Write the formats that make a file into this folder", target.out);
}

void check_comparison_output(const ComparisonFlags& flags) {
  if (!flags.out.empty()) require_writable_directory(flags.out);
  const auto shown = std::ranges::count_if(
      flags.formats, [&](const std::string& format) { return flags.out.empty() || on_screen(format); });
  if (shown > 1) {
    throw usage_error(
        fmt::format("--format {}: one format at a time goes to the screen", join(flags.formats, ",")),
        "give --out DIR to write the others into files");
  }
}

void write_comparison_files(const compare::Comparison& comparison, const std::string& folder,
                            const std::vector<std::string>& formats) {
  for (const auto& format : formats) {
    const auto& writer = *compare::writers().at(format).value;
    if (writer.file_name().empty()) continue;
    write_atomically(std::filesystem::path(folder) / writer.file_name(), writer.render(comparison));
  }
}

void deliver_comparison(const compare::Comparison& comparison, const ComparisonFlags& flags) {
  for (const auto& format : flags.formats) {
    if (flags.out.empty() || on_screen(format)) print_out(render(comparison, format, flags.explain));
  }
  if (!flags.out.empty()) write_comparison_files(comparison, flags.out, flags.formats);
  const bool read = std::ranges::any_of(flags.formats, on_screen);
  if (!read && !flags.out.empty()) log_info(comparison.headline);
}

}  // namespace dtrain::cli
