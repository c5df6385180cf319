#include <map>

#include "report/findings.hpp"
#include "report/format.hpp"
#include "report/hardware.hpp"
#include "report/html_assets.hpp"
#include "report/json_text.hpp"
#include "report/tables.hpp"
#include "report/writers.hpp"

namespace dtrain::report {

namespace {

std::string escaped(const std::string& text) {
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

// JSON inside a script element: no `<`, so that nothing in it can end the element.
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

std::string table(const Table& table) {
  if (table.rows.empty()) return {};
  const auto cell_class = [&](std::size_t c) { return table.columns[c].number ? " class=\"number\"" : ""; };
  std::string out = fmt::format("<section class=\"card\"><h2>{}</h2><div class=\"scroll\"><table><thead><tr>",
                                escaped(table.title));
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", cell_class(c), escaped(table.columns[c].head));
  }
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>", escaped(row[0]));
    for (std::size_t c = 1; c < row.size(); ++c) {
      out += fmt::format("<td{}>{}</td>", cell_class(c), escaped(row[c]));
    }
    out += "</tr>\n";
  }
  return out +
         fmt::format("</tbody></table></div><p class=\"caption\">{}</p></section>", escaped(table.caption));
}

std::string pairs(const std::vector<Fact>& facts) {
  std::string out = "<dl class=\"pairs\">";
  for (const auto& fact : facts) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(fact.label), escaped(fact.value));
  }
  return out + "</dl>";
}

std::string list(const std::string& title, const std::string& css, const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string out = fmt::format("<h2>{}</h2><ul class=\"{}\">", title, css);
  for (const auto& line : lines) out += fmt::format("<li>{}</li>\n", escaped(line));
  return out + "</ul>";
}

std::string findings(const Result& result) {
  std::vector<std::string> seen = straggler_lines(result);
  if (const auto line = agreement_line(result); !line.empty()) seen.push_back("Weights: " + line);
  for (const auto& fact : hardware_facts(result)) seen.push_back(fact.label + ": " + fact.value);
  if (const auto line = measuring_line(result); !line.empty()) seen.push_back("Cost of measuring: " + line);
  const std::string content = list("Failed", "warnings", failure_lines(result)) +
                              list("Warnings", "warnings", cautions(result)) +
                              list("Findings", "findings", seen) + list("Notes", "notes", note_lines(result));
  return content.empty() ? content : "<section class=\"card\">" + content + "</section>";
}

std::string tile(const std::string& label, const std::string& value, const std::string& note) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd><dd class=\"note\">{}</dd></div>", escaped(label),
                     escaped(value), escaped(note));
}

// The part that costs most, the residual left out.
const stats::BudgetPart* largest_loss(const stats::LossBudget& budget) {
  const stats::BudgetPart* largest = nullptr;
  for (const auto& part : budget.parts) {
    if (part.name != "residual" && (largest == nullptr || part.percent > largest->percent)) largest = &part;
  }
  return largest;
}

// Of the largest N that was measured.
std::string tiles(const Result& result) {
  const auto& runs = result.samples.runs;
  std::size_t last = runs.size();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].rounds.empty()) last = i;
  }
  if (last == runs.size()) return {};
  const auto& run = runs[last];
  const auto& s = summary_of(result, last);
  const std::string at = fmt::format("N = {}{}", run.plan.replicas, run.plan.simulated ? ", simulated" : "");
  const auto range = [](const std::string& low, const std::string& high) {
    return fmt::format("95 % interval {} to {}", low, high);
  };
  std::string out = tile("images/s at " + at, rate(s.images_per_second.median),
                         range(rate(s.images_per_second.low), rate(s.images_per_second.high)));
  out += tile("step time, median", milliseconds(s.step_seconds.p50) + " ms",
              fmt::format("p95 {} ms, p99 {} ms", milliseconds(s.step_seconds.p95),
                          milliseconds(s.step_seconds.p99)));
  if (run.plan.simulated) {
    out += tile("scaling efficiency", "none", "simulated replicas share hardware");
  } else if (s.efficiency) {
    out += tile("scaling efficiency at " + at, percent(s.efficiency->median * 100),
                range(percent(s.efficiency->low * 100), percent(s.efficiency->high * 100)));
  }
  const auto* loss = s.budget ? largest_loss(*s.budget) : nullptr;
  if (loss != nullptr && loss->percent > 0.0) {
    out += tile("largest loss", percent(loss->percent), loss->name + ", of the measured step");
  }
  return out;
}

std::vector<Fact> json_facts(const Json& object) {
  std::vector<Fact> facts;
  for (const auto& [key, value] : object.items()) {
    facts.push_back({key, value.is_string() ? value.get<std::string>()
                                            : value.dump(-1, ' ', false, Json::error_handler_t::replace)});
  }
  return facts;
}

// Replaces each {{name}} once, in one pass: what is put in is never searched again.
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

}  // namespace

std::string to_html(const Result& result) {
  const Json node = to_node(result);
  std::string banners;
  for (const auto& caveat : caveats(result)) {
    banners += fmt::format("<p class=\"banner\" role=\"alert\">{}</p>\n", escaped(caveat));
  }
  const auto facts = command_facts(result);
  std::vector<Fact> command = {{"command", result.command}};
  command.insert(command.end(), facts.begin(), facts.end());
  const auto& strategy = result.options.strategy;
  return fill(assets::page, {{"title", escaped(fmt::format("{} under {}", result.model.name, strategy))},
                             {"created", escaped(result.created)},
                             {"verdict", escaped(result.summary.verdict)},
                             {"banners", banners},
                             {"tiles", tiles(result)},
                             {"scaling", table(scaling_table(result))},
                             {"budget", table(budget_table(result))},
                             {"findings", findings(result)},
                             {"exchange", table(exchange_table(result))},
                             {"evaluation", table(evaluation_table(result))},
                             {"phases", table(phase_table(result))},
                             {"command", pairs(command)},
                             {"machine", pairs(machine_facts(result))},
                             {"options", pairs(json_facts(node.at("config")))},
                             {"environment", pairs(json_facts(node.at("environment")))},
                             {"schema", Result::schema},
                             {"data", script_data(node)},
                             {"style", std::string(assets::style)},
                             {"chart_js", std::string(assets::chart_js)},
                             {"script", std::string(assets::script)}});
}

}  // namespace dtrain::report
