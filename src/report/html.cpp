#include "report/findings.hpp"
#include "report/format.hpp"
#include "report/hardware.hpp"
#include "report/html_assets.hpp"
#include "report/html_text.hpp"
#include "report/json_text.hpp"
#include "report/tables.hpp"
#include "report/writers.hpp"

namespace dtrain::report {

namespace {

std::string pairs(const std::vector<Fact>& facts) {
  std::string out = "<dl class=\"pairs\">";
  for (const auto& fact : facts) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_escaped(fact.label), html_escaped(fact.value));
  }
  return out + "</dl>";
}

std::string list(const std::string& title, const std::string& css, const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string out = fmt::format("<h2>{}</h2><ul class=\"{}\">", title, css);
  for (const auto& line : lines) out += fmt::format("<li>{}</li>\n", html_escaped(line));
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
  return fmt::format("<div><dt>{}</dt><dd>{}</dd><dd class=\"note\">{}</dd></div>", html_escaped(label),
                     html_escaped(value), html_escaped(note));
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

}  // namespace

std::string to_html(const Result& result) { return to_html(result, {}); }

std::string to_html(const Result& result, const HtmlPart& more) {
  const Json node = to_node(result);
  std::string banners;
  for (const auto& caveat : caveats(result)) {
    banners += fmt::format("<p class=\"banner\" role=\"alert\">{}</p>\n", html_escaped(caveat));
  }
  const auto facts = command_facts(result);
  std::vector<Fact> command = {{"command", result.command}};
  command.insert(command.end(), facts.begin(), facts.end());
  const auto& strategy = result.options.strategy;
  return fill(assets::page, {{"title", html_escaped(fmt::format("{} under {}", result.model.name, strategy))},
                             {"created", html_escaped(result.created)},
                             {"verdict", html_escaped(result.summary.verdict)},
                             {"banners", banners},
                             {"tiles", tiles(result)},
                             {"choice", html_table(choice_table(result))},
                             {"scaling", html_table(scaling_table(result))},
                             {"budget", html_table(budget_table(result))},
                             {"findings", findings(result)},
                             {"exchange", html_table(exchange_table(result))},
                             {"facts", html_table(fact_table(result)) + html_table(memory_table(result))},
                             {"evaluation", html_table(evaluation_table(result))},
                             {"phases", html_table(phase_table(result))},
                             {"command", pairs(command)},
                             {"machine", pairs(machine_facts(result))},
                             {"options", pairs(json_facts(node.at("config")))},
                             {"environment", pairs(json_facts(node.at("environment")))},
                             {"schema", Result::schema},
                             {"data", script_data(node)},
                             {"style", std::string(assets::style)},
                             {"chart_js", std::string(assets::chart_js)},
                             {"more", more.section},
                             {"script", page_script(std::string(assets::script) + more.script)}});
}

}  // namespace dtrain::report
