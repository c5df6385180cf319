#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/formats.hpp"
#include "compare/tables.hpp"

namespace dtrain::compare {

namespace {

using Json = nlohmann::ordered_json;

// Bounds that nothing is known of are null.
Json finite(double value) { return std::isfinite(value) && std::abs(value) < 1e30 ? Json(value) : Json(); }

Json side_of(const Side& side) {
  Json out{{"name", side.name}, {"results", Json::array()}};
  for (const auto& result : side.results) {
    out["results"].push_back({{"created", result.created},
                              {"command", result.command},
                              {"version", result.build.version},
                              {"commit", result.build.commit},
                              {"machine_key", result.machine.key}});
  }
  return out;
}

Json values_of(const Values& values) {
  return {{"median", finite(values.median)}, {"rounds", values.rounds}, {"runs", values.runs}};
}

Json finding_of(const Finding& finding) {
  const stats::Judgement& judged = finding.judgement;
  Json out{{"configuration", finding.configuration},
           {"metric", finding.metric},
           {"unit", finding.unit},
           {"better", finding.more_is_better ? "more" : "less"},
           {"verdict", stats::name(judged.verdict)},
           {"base", values_of(finding.base)},
           {"new", values_of(finding.next)}};
  const bool has = !finding.arithmetic.empty();
  out["change"] = has ? finite(finding.change) : Json();
  out["change_low"] = has ? finite(finding.low) : Json();
  out["change_high"] = has ? finite(finding.high) : Json();
  out["raw_change"] = has ? finite(finding.raw_change) : Json();
  out["normalised"] = finding.normalised;
  out["machine_change"] = finding.normalised ? finite(finding.machine_change) : Json();
  out["p_worse"] = has ? Json(judged.p_worse) : Json();
  out["p_adjusted"] = has ? Json(judged.p_adjusted) : Json();
  out["least_found"] = has ? finite(judged.least_found) : Json();
  if (!has || !finding.reason.empty()) out["reason"] = finding.reason;
  out["doubts"] = Json::array();
  for (const auto& doubt : finding.doubts)
    out["doubts"].push_back({{"share", doubt.share}, {"what", doubt.what}});
  out["arithmetic"] = finding.arithmetic;
  return out;
}

Json difference_of(const Difference& difference) {
  return {{"key", difference.key},
          {"base", difference.base},
          {"new", difference.next},
          {"kind", difference.kind == Difference::Kind::work ? "work" : "configured"}};
}

}  // namespace

std::string to_json(const Comparison& comparison) {
  Json out{{"schema", "dtrain.comparison/1"},
           {"outcome", name(comparison.outcome)},
           {"exit_code", static_cast<int>(exit_code(comparison))},
           {"headline", comparison.headline},
           {"forced", comparison.forced},
           {"max_regress", comparison.config.gate.max_regress},
           {"limit", comparison.config.gate.limit == stats::Limit::bound ? "bound" : "minimum effect"},
           {"confidence", comparison.config.gate.confidence},
           {"looks", comparison.config.looks},
           {"between_runs", comparison.config.between_runs},
           {"paired", comparison.config.paired},
           {"base", side_of(comparison.base)},
           {"new", side_of(comparison.next)}};
  for (const char* list : {"differences", "findings"}) out[list] = Json::array();
  for (const auto& difference : comparison.differences)
    out["differences"].push_back(difference_of(difference));
  for (const auto& finding : comparison.findings) out["findings"].push_back(finding_of(finding));
  out["missing"] = comparison.missing;
  out["added"] = comparison.added;
  out["notes"] = comparison.notes;
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::compare
