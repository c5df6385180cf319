#include "report/html_text.hpp"

#include "report/html_assets.hpp"

namespace dtrain::report {

std::string html_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_data(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string html_table(const Table& table) {
  if (table.rows.empty()) return {};
  const auto cell_class = [&](std::size_t c) { return table.columns[c].number ? " class=\"number\"" : ""; };
  std::string out = fmt::format("<section class=\"card\"><h2>{}</h2><div class=\"scroll\"><table><thead><tr>",
                                html_escaped(table.title));
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", cell_class(c), html_escaped(table.columns[c].head));
  }
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>", html_escaped(row[0]));
    for (std::size_t c = 1; c < row.size(); ++c) {
      out += fmt::format("<td{}>{}</td>", cell_class(c), html_escaped(row[c]));
    }
    out += "</tr>\n";
  }
  return out + fmt::format("</tbody></table></div><p class=\"caption\">{}</p></section>",
                           html_escaped(table.caption));
}

std::string page_script(const std::string& makers) {
  return std::string(assets::charts) + makers + "dtrainCharts.start();\n";
}

std::string fill(std::string_view page, const std::map<std::string_view, std::string>& values) {
  std::string out;
  while (true) {
    const auto open = page.find("{{");
    const auto close = page.find("}}", open);
    if (open == std::string_view::npos || close == std::string_view::npos) return out.append(page);
    out.append(page.substr(0, open)).append(values.at(page.substr(open + 2, close - open - 2)));
    page.remove_prefix(close + 2);
  }
}

}  // namespace dtrain::report
