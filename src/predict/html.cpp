#include "predict/html_assets.hpp"
#include "predict/tables.hpp"
#include "predict/writers.hpp"
#include "report/html_assets.hpp"
#include "report/html_text.hpp"

namespace dtrain::predict {

namespace {

using report::html_escaped;

std::string notes(const Prediction& prediction) {
  if (prediction.notes.empty()) return {};
  std::string out = "<section class=\"card\"><h2>Notes</h2><ul class=\"findings\">";
  for (const auto& note : prediction.notes) out += fmt::format("<li>{}</li>\n", html_escaped(note));
  return out + "</ul></section>";
}

std::string pairs(const std::vector<report::Fact>& facts) {
  std::string out = "<dl class=\"pairs\">";
  for (const auto& fact : facts) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_escaped(fact.label), html_escaped(fact.value));
  }
  return out + "</dl>";
}

}  // namespace

std::string to_html(const Prediction& prediction) {
  const bool refused = !prediction.refusal.empty();
  const auto table = [&](report::Table (*make)(const Prediction&)) {
    return refused ? std::string() : report::html_table(make(prediction));
  };
  const std::string verdict = refused ? refusal_line(prediction) : prediction.verdict;
  return report::fill(assets::page,
                      {{"title", html_escaped(fmt::format("{} under {}", prediction.source.model,
                                                          prediction.source.strategy))},
                       {"verdict", html_escaped(verdict)},
                       {"estimates", table(&estimate_table)},
                       {"checks", table(&check_table)},
                       {"limits", table(&limit_table)},
                       {"gains", table(&gain_table)},
                       {"notes", notes(prediction)},
                       {"facts", pairs(source_facts(prediction))},
                       {"schema", Prediction::schema},
                       {"data", report::script_data(report::Json::parse(to_json(prediction)))},
                       {"style", std::string(report::assets::style)},
                       {"chart_js", std::string(report::assets::chart_js)},
                       {"script", std::string(assets::script)}});
}

}  // namespace dtrain::predict
