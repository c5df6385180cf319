#include "compare/tables.hpp"
#include "compare/writers.hpp"
#include "report/console_text.hpp"

namespace dtrain::compare {

namespace {

using report::ConsoleStyle;
using report::Ink;
using report::paint;
using report::wrap;

std::string section(const report::Table& table, std::size_t keys, const ConsoleStyle& style) {
  if (table.rows.empty()) return {};
  return fmt::format("\n{}\n{}  {}\n", paint(table.title, Ink::bold, style),
                     report::lay_out(table, keys, style),
                     paint(wrap(table.caption, 2, style), Ink::dim, style));
}

std::string fact(const char* label, const std::string& value, const ConsoleStyle& style) {
  return fmt::format("  {:<6}{}\n", label, wrap(report::printable(value), 8, style));
}

std::string arithmetic(const Comparison& comparison, const ConsoleStyle& style) {
  std::string out = fmt::format("\n{}\n", paint("How each answer came about", Ink::bold, style));
  for (const auto& finding : comparison.findings) {
    out += fmt::format("  {}\n", wrap(report::printable(sentence(finding)), 2, style));
    for (const auto& line : finding.arithmetic)
      out += "    - " + wrap(report::printable(line), 6, style) + "\n";
  }
  return out;
}

Ink ink_of(Outcome outcome) {
  return outcome == Outcome::pass ? Ink::good : outcome == Outcome::regression ? Ink::warning : Ink::bold;
}

}  // namespace

std::string render_console(const Comparison& comparison, const ConsoleStyle& style, bool explain) {
  std::string out =
      fact("base", describe(comparison.base), style) + fact("new", describe(comparison.next), style);
  out += section(difference_table(comparison), 1, style);
  out += section(finding_table(comparison), comparison.config.metrics.size() == 1 ? 1 : 2, style);
  const auto lines = remarks(comparison);
  if (!lines.empty()) out += "\n";
  for (const auto& line : lines) out += "  - " + wrap(report::printable(line), 4, style) + "\n";
  if (explain) out += arithmetic(comparison, style);
  return out + "\n" +
         paint(wrap(report::printable(comparison.headline), 0, style), ink_of(comparison.outcome), style) +
         "\n";
}

}  // namespace dtrain::compare
