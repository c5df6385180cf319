#include "compare/tables.hpp"

#include <cmath>

#include "base/text.hpp"
#include "compare/metric.hpp"
#include "report/format.hpp"

namespace dtrain::compare {

namespace {

std::string number(const Values& values) {
  if (values.rounds == 0) return "-";
  return report::rate(values.median);
}

std::string samples(const Finding& finding) {
  const auto one = [](const Values& values) {
    return values.runs > 1 && values.runs < values.rounds
               ? fmt::format("{} in {}", values.rounds, values.runs)
               : fmt::format("{}", values.rounds);
  };
  return one(finding.base) + " / " + one(finding.next);
}

std::string range(const Finding& finding) {
  return fmt::format("[{}, {}]", signed_percent(finding.low), signed_percent(finding.high));
}

std::string found(const Finding& finding) {
  const double least = finding.judgement.least_found;
  return least < 1.0 ? report::percent(100.0 * least) : "-";
}

bool judged(const Finding& finding) { return !finding.arithmetic.empty(); }

std::string doubt_in_words(const stats::Doubt& doubt) {
  return fmt::format("{}, which may have cost it up to {}{}", doubt.what,
                     report::percent(100.0 * doubt.share), doubt.only_slows ? "" : " or gained it as much");
}

std::string how_normalised(const Comparison& comparison) {
  const bool any = std::ranges::any_of(comparison.findings, &Finding::normalised);
  return any ? " Changes are corrected for the machine's own speed, which a calibration kernel took beside "
               "every round."
             : " Changes are not corrected for the machine's speed.";
}

std::string what_parts_count(const Comparison& comparison) {
  const bool any = std::ranges::any_of(comparison.findings, [](const Finding& finding) {
    return metrics().at(finding.metric).value.part_of_step;
  });
  if (!any) return "";
  return fmt::format(" Of parts of a step, less than {:g} % of the base's step counts as that.",
                     100.0 * least_part);
}

// Small corrections are in the noise.
std::string correction_in_words(const Finding& finding) {
  constexpr double worth_saying = 0.02;
  if (!finding.normalised || std::abs(finding.machine_change) < worth_saying) return "";
  return fmt::format("as measured {}, but the machine itself was {} {} beside the new side",
                     signed_percent(finding.raw_change),
                     report::percent(100.0 * std::abs(finding.machine_change)),
                     finding.machine_change < 0.0 ? "slower" : "faster");
}

}  // namespace

std::string signed_percent(double share) {
  return std::isfinite(share) && std::abs(share) < 1e6 ? fmt::format("{:+.1f} %", 100.0 * share) : "n/a";
}

std::string describe(const Side& side) {
  if (side.results.empty()) return side.name;
  const report::Result& first = side.results.front();
  const std::string commit = first.build.commit.empty() ? first.build.version : first.build.commit;
  const std::string more = side.results.size() > 1 ? fmt::format(", {} runs", side.results.size()) : "";
  return fmt::format("{}: {} of {}{}", side.name, commit, first.created, more);
}

std::string sentence(const Finding& finding) {
  std::string text = fmt::format("{} of {}: {}", finding.metric, finding.configuration,
                                 stats::name(finding.judgement.verdict));
  if (judged(finding)) {
    text += fmt::format(", {} {}, base {} {}, new {}", signed_percent(finding.change), range(finding),
                        number(finding.base), finding.unit, number(finding.next));
  }
  return finding.reason.empty() ? text : text + " (" + finding.reason + ")";
}

report::Table finding_table(const Comparison& comparison) {
  const bool one_metric = comparison.config.metrics.size() == 1;
  report::Table table;
  table.title = one_metric ? "Comparison by " + comparison.config.metrics.front() : "Comparison";
  table.columns = {{"configuration", false}, {"base", true},     {"new", true},      {"rounds", true},
                   {"change", true},         {"interval", true}, {"verdict", false}, {"would find", true}};
  if (!one_metric) table.columns.insert(table.columns.begin() + 1, {"metric", false});
  for (const auto& finding : comparison.findings) {
    const bool has = judged(finding);
    auto& row = table.rows.emplace_back(std::vector<std::string>{
        finding.configuration, number(finding.base), number(finding.next), samples(finding),
        has ? signed_percent(finding.change) : "-", has ? range(finding) : "-",
        stats::name(finding.judgement.verdict), found(finding)});
    if (!one_metric) row.insert(row.begin() + 1, finding.metric);
  }
  const stats::GateConfig& gate = comparison.config.gate;
  const bool bound = gate.limit == stats::Limit::bound;
  const int looks = comparison.config.looks;
  table.caption = fmt::format(
      "Base, new: medians as measured. Change: new against base, of means of logarithms (not of those "
      "medians), "
      "with its {:g} % interval{}, widened by what may have disturbed a side. Worse: {}, with the chance of "
      "a false "
      "alarm shared among all answers{}. Would find: the smallest loss that would be called worse in 8 of 10 "
      "measurements like this.{}{}",
      100.0 * gate.confidence, comparison.config.paired ? " from pairs" : "",
      bound ? fmt::format("a loss of more than {:g} %", 100.0 * gate.max_regress)
            : fmt::format("a loss beyond doubt, measured as more than {:g} %", 100.0 * gate.max_regress),
      looks > 1 ? fmt::format(" and {} looks at the growing evidence", looks) : "",
      what_parts_count(comparison), how_normalised(comparison));
  return table;
}

report::Table difference_table(const Comparison& comparison) {
  report::Table table;
  table.title = "What differs";
  table.columns = {{"key", false}, {"base", false}, {"new", false}, {"meaning", false}};
  for (const auto& difference : comparison.differences) {
    const bool work = difference.kind == Difference::Kind::work;
    table.rows.push_back(
        {difference.key, difference.base, difference.next, work ? "other work" : "other way"});
  }
  table.caption =
      "Other work: figures of the two sides cannot be held against each other. Other way: the same work, "
      "done or "
      "built differently.";
  return table;
}

std::vector<std::string> remarks(const Comparison& comparison) {
  std::vector<std::string> lines;
  if (comparison.forced) {
    lines.emplace_back(
        "forced: the two sides did not do the same work on the same machine, so that a change may come from "
        "that");
  }
  for (const auto& id : comparison.missing) lines.push_back(id + ": the new side did not measure it");
  for (const auto& id : comparison.added) lines.push_back(id + ": only the new side measured it; not judged");
  for (const auto& finding : comparison.findings) {
    std::vector<std::string> parts;
    if (!finding.reason.empty()) parts.push_back(finding.reason);
    if (const auto text = correction_in_words(finding); !text.empty()) parts.push_back(text);
    for (const auto& doubt : finding.doubts) parts.push_back(doubt_in_words(doubt));
    if (!parts.empty()) {
      lines.push_back(fmt::format("{}, {}: {}", finding.configuration, finding.metric, join(parts, "; ")));
    }
  }
  lines.insert(lines.end(), comparison.notes.begin(), comparison.notes.end());
  return lines;
}

}  // namespace dtrain::compare
