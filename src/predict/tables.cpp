#include "predict/tables.hpp"

#include "base/text.hpp"
#include "report/format.hpp"

namespace dtrain::predict {

namespace {

std::string seconds_text(double seconds) { return format_duration(seconds); }

std::string bandwidth(double seconds_per_byte) {
  if (!(seconds_per_byte > 0.0)) return "no time for bytes";
  const double gigabytes = 1e-9 / seconds_per_byte;
  return gigabytes >= 0.1 ? fmt::format("{:.3g} GB/s", gigabytes)
                          : fmt::format("{:.3g} MB/s", gigabytes * 1e3);
}

std::string link_text(double alpha, double beta) {
  return fmt::format("{} a message, {}", seconds_text(alpha), bandwidth(beta));
}

std::string collective_text(const Prediction::Collective& c) {
  std::string text = fmt::format("{} ({})", c.law, c.why);
  if (!c.others.empty()) text += fmt::format("; the interval holds {}, too", join(c.others, "; "));
  if (c.has_spanning) text += fmt::format("; among workers {}", link_text(c.alpha, c.beta));
  if (c.has_local) text += fmt::format("; within one {}", link_text(c.local_alpha, c.local_beta));
  return text + "; from " + c.from;
}

std::string signed_percent(double share) {
  return fmt::format("{}{}", share >= 0.0 ? "+" : "", report::percent(100.0 * share));
}

std::string from_n(const std::optional<int>& n, int looked_up_to) {
  return n ? report::count(*n) : fmt::format("beyond {}", report::count(looked_up_to));
}

stats::Interval interval(const Range& range) {
  return {.median = range.value, .low = range.low, .high = range.high};
}

std::string share_of_step(double part, const Estimate& e) {
  return report::percent(100.0 * part / e.step.value);
}

std::vector<std::string> estimate_row(const Estimate& e, int largest) {
  std::string how = words(e.distance, e.replicas, largest);
  if (e.measured_images_per_second)
    how += fmt::format(" ({} images/s measured)", report::rate(*e.measured_images_per_second));
  if (e.shares) how += ", simulated";
  return {report::count(e.replicas),
          report::rate(interval(e.images_per_second)),
          e.shares ? "-" : report::percent_of_one(interval(e.efficiency)),
          report::milliseconds(e.step.value),
          share_of_step(e.parts.computation, e),
          share_of_step(e.parts.stragglers, e),
          share_of_step(e.parts.communication, e),
          e.limit.empty() ? "-" : e.limit,
          how};
}

}  // namespace

std::vector<report::Fact> source_facts(const Prediction& prediction) {
  const auto& s = prediction.source;
  std::vector<report::Fact> facts;
  if (!s.file.empty()) facts.push_back({"result", fmt::format("{}, of {}", s.file, s.created)});
  facts.push_back({"model", s.model == s.measured_model
                                ? s.model
                                : fmt::format("{}, from runs of {}", s.model, s.measured_model)});
  facts.push_back({"strategy", fmt::format("{} on {}, {} scaling", s.strategy, s.device, s.scaling)});
  facts.push_back({"measured", fmt::format("{} rounds a run, {:g} images a step and replica at the largest N",
                                           s.rounds, s.images_of_replica)});
  if (!prediction.collective.law.empty())
    facts.push_back({"all-reduce", collective_text(prediction.collective)});
  return facts;
}

report::Table estimate_table(const Prediction& prediction) {
  report::Table table{
      .title = "Prediction",
      .caption =
          "In brackets: where a benchmark with as many rounds is expected to find it (95 %), from the "
          "spread of rounds, the error of N that were left out, and other laws of the all-reduce that "
          "fit as well. Efficiency is against N = 1. Percentages are of the step.",
      .columns = {{"N", false},
                  {"images/s", true},
                  {"efficiency", true},
                  {"step, ms", true},
                  {"computation", true},
                  {"stragglers", true},
                  {"communication", true},
                  {"what limits", false},
                  {"how", false}},
      .rows = {}};
  const int largest = prediction.checks.empty() ? 1 : prediction.checks.back().replicas;
  for (const auto& e : prediction.estimates) table.rows.push_back(estimate_row(e, largest));
  return table;
}

report::Table check_table(const Prediction& prediction) {
  report::Table table{.title = "What was measured, each N left out and predicted from the others",
                      .caption = "Error: predicted / measured step - 1.",
                      .columns = {{"N", false},
                                  {"run", false},
                                  {"images/s", true},
                                  {"step, ms", true},
                                  {"predicted, ms", true},
                                  {"error", true}},
                      .rows = {}};
  for (const auto& c : prediction.checks) {
    table.rows.push_back({report::count(c.replicas), c.simulated ? c.run + " (simulated)" : c.run,
                          report::rate(c.images_per_second), report::milliseconds(c.step),
                          report::milliseconds(c.predicted), signed_percent(c.error)});
  }
  return table;
}

report::Table limit_table(const Prediction& prediction) {
  report::Table table{
      .title = "Limits, in the order in which they come",
      .caption = "N from which a part takes a tenth of the step, and more than the useful computation.",
      .columns = {{"part", false}, {"a tenth from N", true}, {"more than computation from N", true}},
      .rows = {}};
  for (const auto& limit : prediction.limits) {
    table.rows.push_back({limit.part, from_n(limit.tenth, prediction.limits_up_to),
                          from_n(limit.overtakes, prediction.limits_up_to)});
  }
  return table;
}

report::Table gain_table(const Prediction& prediction) {
  const int n = prediction.estimates.empty() ? 1 : prediction.estimates.back().replicas;
  report::Table table{.title = fmt::format("What would help at N = {}", report::count(n)),
                      .caption = "images/s against the flags as measured, by the same model.",
                      .columns = {{"change", false}, {"images/s", true}, {"remark", false}},
                      .rows = {}};
  for (const auto& gain : prediction.gains) {
    table.rows.push_back(
        {gain.change, report::factor(interval(gain.factor)), gain.remark.empty() ? "-" : gain.remark});
  }
  return table;
}

std::string refusal_line(const Prediction& prediction) { return "No prediction: " + prediction.refusal; }

}  // namespace dtrain::predict
