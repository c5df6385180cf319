#include "report/findings.hpp"
#include "report/format.hpp"
#include "report/hardware.hpp"
#include "report/tables.hpp"
#include "report/writers.hpp"

namespace dtrain::report {

namespace {

// Whatever Markdown or HTML would take as markup becomes a character reference; line breaks become spaces. A
// bracket is markup only where a link follows it, so that intervals stay readable in the source.
std::string escaped(const std::string& text) {
  constexpr std::string_view markup = "|<>&*_`\\#~";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool link = c == ']' && i + 1 < text.size() &&
                      std::string_view("([:").find(text[i + 1]) != std::string_view::npos;
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += ' ';
    } else if (link || markup.find(c) != std::string_view::npos) {
      out += fmt::format("&#{};", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string table(const Table& table) {
  if (table.rows.empty()) return {};
  std::string head = "|";
  std::string rule = "|";
  for (const auto& column : table.columns) {
    head += fmt::format(" {} |", escaped(column.head));
    rule += column.number ? " ---: |" : " --- |";
  }
  std::string out = fmt::format("### {}\n\n{}\n{}\n", table.title, head, rule);
  for (const auto& row : table.rows) {
    out += "|";
    for (const auto& text : row) out += fmt::format(" {} |", escaped(text));
    out += "\n";
  }
  return fmt::format("{}\n{}\n\n", out, escaped(table.caption));
}

std::string facts(const std::vector<Fact>& facts) {
  std::string out = "| | |\n| --- | --- |\n";
  for (const auto& fact : facts)
    out += fmt::format("| {} | {} |\n", escaped(fact.label), escaped(fact.value));
  return out + "\n";
}

std::string list(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string out = fmt::format("### {}\n\n", title);
  for (const auto& line : lines) out += fmt::format("- {}\n", escaped(line));
  return out + "\n";
}

}  // namespace

std::string to_markdown(const Result& result) {
  std::string out =
      fmt::format("## dtrain: {}\n\n", escaped(result.model.name + ", " + result.options.strategy));
  if (!result.summary.verdict.empty()) out += fmt::format("**{}**\n\n", escaped(result.summary.verdict));
  for (const auto& caveat : caveats(result)) out += fmt::format("> {}\n\n", escaped(caveat));
  out += table(scaling_table(result));
  out += table(budget_table(result));
  out += table(exchange_table(result));
  out += table(evaluation_table(result));
  std::vector<std::string> findings = straggler_lines(result);
  if (const auto line = agreement_line(result); !line.empty()) findings.push_back("Weights: " + line);
  for (const auto& fact : hardware_facts(result)) findings.push_back(fact.label + ": " + fact.value);
  if (const auto line = measuring_line(result); !line.empty())
    findings.push_back("Cost of measuring: " + line);
  out += list("Findings", findings);
  out += list("Failed", failure_lines(result));
  out += list("Warnings", cautions(result));
  out += list("Notes", note_lines(result));
  std::vector<Fact> all = {{"command", result.command}};
  for (const auto& more : {command_facts(result), machine_facts(result)})
    all.insert(all.end(), more.begin(), more.end());
  out +=
      fmt::format("<details><summary>What was measured, and on what</summary>\n\n{}</details>\n", facts(all));
  return out;
}

}  // namespace dtrain::report
