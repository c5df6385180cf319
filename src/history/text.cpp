#include "history/tables.hpp"
#include "history/writers.hpp"
#include "report/console_text.hpp"
#include "report/markdown_text.hpp"

namespace dtrain::history {

namespace {

using report::ConsoleStyle;
using report::Ink;

constexpr std::size_t points_on_screen = 10;
constexpr std::size_t points_in_a_comment = 20;

std::string items(const std::vector<std::string>& lines, Ink ink, const ConsoleStyle& style) {
  std::string out;
  for (const auto& line : lines)
    out += fmt::format("{}{}\n", report::paint("  - ", ink, style),
                       report::paint(report::wrap(line, 4, style), ink, style));
  return out;
}

std::string section(const std::string& title, const std::vector<std::string>& lines, Ink ink,
                    const ConsoleStyle& style) {
  if (lines.empty()) return {};
  return fmt::format("\n{}\n{}", report::paint(title, Ink::bold, style), items(lines, ink, style));
}

std::string bold(const std::string& text, const ConsoleStyle& style) {
  return report::paint(report::printable(text), Ink::bold, style);
}

// Where the level changed, a mark stands before the row.
std::string series_text(const Series& series, const ConsoleStyle& style) {
  const std::size_t n = series.points.size();
  std::vector<std::string> marks;
  for (std::size_t i = n - std::min(n, points_on_screen); i < n; ++i)
    marks.emplace_back(changes_at(series, i) ? ">" : " ");
  return fmt::format("\n  {}\n{}", bold(title_of(series), style),
                     report::lay_out(points_table(series, points_on_screen), 2, style, marks));
}

std::string machine_text(const Machine& machine, const ConsoleStyle& style) {
  std::string out = fmt::format("\n{}\n", bold(title_of(machine), style));
  for (const auto& series : machine.series) out += series_text(series, style);
  const std::string caption =
      report::wrap(points_caption(points_on_screen) + " > the level changed here.", 2, style);
  return out + fmt::format("\n  {}\n\n{}", report::paint(caption, Ink::dim, style),
                           items(change_lines(machine), Ink::plain, style));
}

}  // namespace

std::string to_console(const History& history, const ConsoleStyle& style) {
  std::string out = fmt::format("\n{}\n", report::paint("History: " + headline(history), Ink::bold, style));
  for (const auto& machine : history.machines) out += machine_text(machine, style);
  out += section("Other tools, refused", history.refused, Ink::warning, style);
  return out + section("Left out of the history", history.notes, Ink::plain, style);
}

std::string to_plain_text(const History& history) { return to_console(history, ConsoleStyle()); }

std::string to_markdown(const History& history) {
  std::string out = fmt::format("## dtrain: history of {}\n\n", headline(history));
  for (const auto& machine : history.machines) {
    report::Table table = points_table(machine, points_in_a_comment);
    table.title = report::markdown_text(table.title);
    out += report::markdown_table(table);
    out += report::markdown_list("Changes", change_lines(machine));
  }
  out += report::markdown_list("Other tools, refused", history.refused);
  return out + report::markdown_list("Left out", history.notes);
}

const Registry<Format>& writers() {
  static const auto table = [] {
    Registry<Format> formats("format of a history");
    formats.add("console", "tables and changes on the screen", {"", to_plain_text});
    formats.add("json", "dtrain.history/1: history.json", {"history.json", to_json});
    formats.add("csv", "a row a result and configuration: history.csv", {"history.csv", to_csv});
    formats.add("markdown", "tables for a pull request: history.md", {"history.md", to_markdown});
    formats.add("html", "charts in one offline file: history.html", {"history.html", to_html});
    formats.alias("md", "markdown");
    return formats;
  }();
  return table;
}

}  // namespace dtrain::history
