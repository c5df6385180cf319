#include "report/markdown_text.hpp"

namespace dtrain::report {

std::string markdown_text(const std::string& text) {
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

std::string markdown_table(const Table& table) {
  if (table.rows.empty()) return {};
  std::string head = "|";
  std::string rule = "|";
  for (const auto& column : table.columns) {
    head += fmt::format(" {} |", markdown_text(column.head));
    rule += column.number ? " ---: |" : " --- |";
  }
  std::string out = fmt::format("### {}\n\n{}\n{}\n", table.title, head, rule);
  for (const auto& row : table.rows) {
    out += "|";
    for (const auto& text : row) out += fmt::format(" {} |", markdown_text(text));
    out += "\n";
  }
  return fmt::format("{}\n{}\n\n", out, markdown_text(table.caption));
}

std::string markdown_list(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string out = fmt::format("### {}\n\n", title);
  for (const auto& line : lines) out += fmt::format("- {}\n", markdown_text(line));
  return out + "\n";
}

std::string markdown_facts(const std::vector<Fact>& facts) {
  std::string out = "| | |\n| --- | --- |\n";
  for (const auto& fact : facts)
    out += fmt::format("| {} | {} |\n", markdown_text(fact.label), markdown_text(fact.value));
  return out + "\n";
}

}  // namespace dtrain::report
