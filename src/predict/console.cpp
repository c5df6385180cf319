#include "base/text.hpp"
#include "predict/tables.hpp"
#include "predict/writers.hpp"
#include "report/console_text.hpp"

namespace dtrain::predict {

namespace {

using report::Ink;

constexpr std::size_t label_columns = 14;

std::string fact_line(const report::Fact& fact, const report::ConsoleStyle& style) {
  const std::string label = "  " + fact.label;
  return paint(label, Ink::dim, style) + std::string(label_columns - label.size(), ' ') +
         wrap(report::printable(fact.value), label_columns, style) + "\n";
}

std::string section(const report::Table& table, const report::ConsoleStyle& style) {
  if (table.rows.empty()) return {};
  return fmt::format("\n{}\n{}  {}\n", paint(table.title, Ink::bold, style), lay_out(table, 1, style),
                     paint(wrap(table.caption, 2, style), Ink::dim, style));
}

}  // namespace

std::string to_console(const Prediction& prediction, const report::ConsoleStyle& style) {
  if (!prediction.refusal.empty()) return report::printable(refusal_line(prediction)) + "\n";
  std::string out;
  for (const auto& fact : source_facts(prediction)) out += fact_line(fact, style);
  out += section(estimate_table(prediction), style);
  out += section(check_table(prediction), style);
  out += section(limit_table(prediction), style);
  out += section(gain_table(prediction), style);
  if (prediction.gains.empty()) {
    out += "\n  " +
           wrap("No other bucket size, sync interval or compression gains 1 % by this model.", 2, style) +
           "\n";
  }
  out += fmt::format("\n{}\n", paint(wrap(prediction.verdict, 0, style), Ink::bold, style));
  if (prediction.notes.empty()) return out;
  out += fmt::format("\n{}\n", paint("Notes", Ink::bold, style));
  for (const auto& note : prediction.notes) out += "  - " + wrap(report::printable(note), 4, style) + "\n";
  return out;
}

}  // namespace dtrain::predict
