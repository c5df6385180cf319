#include "report/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/text.hpp"
#include "report/console_text.hpp"
#include "report/files.hpp"
#include "report/findings.hpp"
#include "report/format.hpp"
#include "report/hardware.hpp"
#include "report/tables.hpp"

namespace dtrain::report {

namespace {

constexpr std::size_t label_columns = 14;
constexpr std::size_t longest_bar = 60;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The locale's character set, without changing the program's locale: the first of these that is set counts.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = variable(name);
    if (value.empty()) continue;
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

std::string fact_line(const Fact& fact, const ConsoleStyle& style) {
  const std::string label = "  " + fact.label;
  const std::string space(label_columns - std::min(label_columns - 1, label.size()), ' ');
  return paint(label, Ink::dim, style) + space + wrap(fact.value, label_columns, style) + "\n";
}

std::string heading(const std::string& text, const ConsoleStyle& style) {
  return fmt::format("\n{}\n", paint(text, Ink::bold, style));
}

std::string caption(const std::string& text, const ConsoleStyle& style) {
  return fmt::format("  {}\n", paint(wrap(text, 2, style), Ink::dim, style));
}

std::string items(const std::vector<std::string>& lines, Ink ink, const ConsoleStyle& style) {
  std::string out;
  for (const auto& line : lines)
    out += paint("  - ", ink, style) + paint(wrap(line, 4, style), ink, style) + "\n";
  return out;
}

std::string budget_bars(const Result& result, const ConsoleStyle& style) {
  std::size_t label = 0;
  for (const auto& run : result.samples.runs) label = std::max(label, columns_of(printable(run.plan.id)));
  const auto room = static_cast<std::size_t>(std::max(style.width, 40));
  const std::size_t length = std::min(longest_bar, room - std::min(room - 10, label + 6));
  std::string out;
  for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
    const auto& budget = summary_of(result, i).budget;
    if (!budget) continue;
    std::vector<double> shares{budget->useful_percent};
    for (const auto& part : budget->parts) shares.push_back(part.percent);
    const std::string id = printable(result.samples.runs[i].plan.id);
    out +=
        "  " + id + std::string(label - columns_of(id) + 2, ' ') + stacked_bar(shares, length, style) + "\n";
  }
  return out;
}

std::string budget_section(const Result& result, const ConsoleStyle& style) {
  const Table table = budget_table(result);
  if (table.rows.empty()) return {};
  std::vector<std::string> legend;
  for (std::size_t part = 0; part + 2 < table.rows.size(); ++part) legend.push_back(bar_swatch(part, style));
  return heading("Loss budget: where a step's time goes", style) + budget_bars(result, style) + "\n" +
         lay_out(table, 1, style, legend) + caption(table.caption, style);
}

std::string table_section(const Table& table, std::size_t keys, const ConsoleStyle& style) {
  if (table.rows.empty()) return {};
  return heading(table.title, style) + lay_out(table, keys, style) + caption(table.caption, style);
}

std::vector<std::string> file_names(const Result& result) {
  const auto& formats = result.options.formats;
  std::vector<std::string> names;
  if (result.options.out.empty()) return names;
  for (const auto& path : output_paths(result.options.out, formats.empty() ? default_formats() : formats)) {
    names.push_back(path.string());
  }
  if (!result.options.trace.empty()) names.push_back(result.options.trace);
  return names;
}

}  // namespace

ConsoleStyle console_style(int fd) {
  ConsoleStyle style;
  style.terminal = ::isatty(fd) == 1;
  if (!style.terminal) return style;
  const std::string term = variable("TERM");
  style.color = variable("NO_COLOR").empty() && !term.empty() && term != "dumb";
  style.unicode = locale_is_utf8();
  winsize window{};
  if (::ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) style.width = window.ws_col;
  return style;
}

std::string render_header(const Result& result, const ConsoleStyle& style) {
  std::string out = paint(fmt::format("dtrain {}", printable(result.build.version)), Ink::bold, style) + "\n";
  if (!result.command.empty()) out += fact_line({"command", result.command}, style);
  for (const auto& fact : command_facts(result)) out += fact_line(fact, style);
  out += fact_line(machine_facts(result).front(), style);
  return out;
}

std::string render_report(const Result& result, const ConsoleStyle& style) {
  std::string out;
  for (const auto& caveat : caveats(result)) {
    out += fmt::format("\n{}\n", paint(fmt::format("! {}", wrap(caveat, 2, style)), Ink::warning, style));
  }
  out += table_section(choice_table(result), 1, style);
  out += table_section(scaling_table(result), 2, style);
  out += budget_section(result, style);
  out += table_section(exchange_table(result), 2, style);
  out += table_section(fact_table(result), 2, style);
  out += table_section(memory_table(result), 2, style);
  out += table_section(evaluation_table(result), 2, style);
  out += "\n";
  if (!result.summary.verdict.empty()) {
    const std::string verdict = fmt::format("Verdict: {}", wrap(result.summary.verdict, 9, style));
    out += paint(verdict, Ink::bold, style) + "\n\n";
  }
  const auto line = [&](const std::string& label, const std::string& value) {
    if (!value.empty()) out += fact_line({label, value}, style);
  };
  for (const auto& straggler : straggler_lines(result)) line("straggler", straggler);
  line("weights", agreement_line(result));
  for (const auto& fact : hardware_facts(result)) line(fact.label, fact.value);
  line("measuring", measuring_line(result));
  if (result.samples.peak_process_bytes > 0) {
    line("peak memory",
         bytes(static_cast<double>(result.samples.peak_process_bytes)) + " of the process, all replicas");
  }
  line("files", join(file_names(result), " "));
  const auto section = [&](const std::string& title, const std::vector<std::string>& lines, Ink ink) {
    if (!lines.empty()) out += heading(title, style) + items(lines, ink, style);
  };
  section("Failed", failure_lines(result), Ink::warning);
  section("Warnings", cautions(result), Ink::warning);
  section("Notes", note_lines(result), Ink::plain);
  return out;
}

}  // namespace dtrain::report
