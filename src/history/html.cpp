#include "history/data.hpp"
#include "history/html_assets.hpp"
#include "history/tables.hpp"
#include "history/writers.hpp"
#include "report/html_assets.hpp"
#include "report/html_text.hpp"

namespace dtrain::history {

namespace {

using report::html_escaped;

std::string list(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string out = fmt::format("<section class=\"card\"><h2>{}</h2><ul>", title);
  for (const auto& line : lines) out += fmt::format("<li>{}</li>\n", html_escaped(line));
  return out + "</ul></section>\n";
}

std::string figure(const std::string& title, const std::string& canvas, const char* caption) {
  return fmt::format(
      "<figure><h2>{}</h2><div class=\"canvas\"><canvas id=\"{}\"></canvas></div><figcaption>{}</figcaption>"
      "</figure>\n",
      title, canvas, caption);
}

std::string machine_section(const Machine& machine, std::size_t index) {
  const std::string title = html_escaped(title_of(machine));
  return fmt::format("<h2>{}</h2><section class=\"charts\" aria-label=\"{}\">\n", title, title) +
         figure(
             "Throughput over time", fmt::format("history-rates-{}", index),
             "Solid: at the machine's reference speed where all results were calibrated; dotted: as "
             "measured. Whiskers: 95 % interval over a result's rounds. Hollow: unstable. Dashed uprights: "
             "the level changed there.") +
         figure("Efficiency over time", fmt::format("history-efficiencies-{}", index),
                "images/s at N / (N x images/s of the strategy's own base), both of the same result.") +
         "</section>\n" + list("Changes", change_lines(machine)) +
         report::html_table(points_table(machine, all_points));
}

}  // namespace

report::HtmlPart html_part(const History& history) {
  report::HtmlPart part;
  for (std::size_t i = 0; i < history.machines.size(); ++i) {
    part.section += machine_section(history.machines[i], i);
  }
  part.section += list("Other tools, refused", history.refused);
  part.section += list("Left out of the history", history.notes);
  part.section += fmt::format("<script type=\"application/json\" id=\"history\">{}</script>\n",
                              report::script_data(to_node(history)));
  part.script = assets::script;
  return part;
}

std::string to_html(const History& history) {
  const report::HtmlPart part = html_part(history);
  return report::fill(assets::page, {{"headline", html_escaped(headline(history))},
                                     {"section", part.section},
                                     {"style", std::string(report::assets::style)},
                                     {"chart_js", std::string(report::assets::chart_js)},
                                     {"script", report::page_script(part.script)}});
}

}  // namespace dtrain::history
