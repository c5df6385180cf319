#include <algorithm>

#include "report/format.hpp"
#include "report/tables.hpp"
#include "stats/choice.hpp"

namespace dtrain::report {

namespace {

constexpr const char* nothing = "-";

std::string value_text(const measure::Fact& fact) {
  if (fact.unit == "bytes") return bytes(fact.value);
  if (fact.unit == "share") return percent(100.0 * fact.value);
  if (fact.unit == "s") return milliseconds(fact.value) + " ms";
  if (fact.unit == "count") return count(static_cast<std::int64_t>(fact.value));
  return fact.unit.empty() ? fmt::format("{:g}", fact.value) : fmt::format("{:g} {}", fact.value, fact.unit);
}

// "bubble_share" as words.
std::string name_text(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

bool says_more_than_all(const measure::RunSamples& run) { return !run.facts.empty(); }

std::string memory_cell(std::size_t value) {
  return value == 0 ? nothing : bytes(static_cast<double>(value));
}

}  // namespace

Table choice_table(const Result& result) {
  Table table{.title = "Strategies side by side",
              .caption =
                  "The same model and images a step on the same devices, measured in turns. vs plain loop: "
                  "images/s over N times one device. Memory: of the largest replica. Sent: by rank 0 in a "
                  "step. Loss: mean of the last 10 of as many steps as all took, so after the same images.",
              .columns = {{"strategy"},
                          {"N", true},
                          {"images/s [95 %]", true},
                          {"vs plain loop [95 %]", true},
                          {"memory", true},
                          {"sent a step", true},
                          {"loss", true}},
              .rows = {}};
  const auto indices = stats::side_by_side(result.samples);
  const std::size_t steps = stats::common_steps(result.samples, indices);
  for (const std::size_t index : indices) {
    const measure::RunSamples& run = result.samples.runs[index];
    const stats::RunSummary& summary = summary_of(result, index);
    const bool measured = run.failure.empty() && !run.rounds.empty();
    const double sent = run.measured_steps == 0
                            ? 0.0
                            : static_cast<double>(run.bytes_sent) / static_cast<double>(run.measured_steps);
    table.rows.push_back(
        {run.plan.strategy, std::to_string(run.plan.replicas),
         measured              ? rate(summary.images_per_second)
         : run.failure.empty() ? "not measured"
                               : "failed",
         summary.efficiency_against_plain ? percent_of_one(*summary.efficiency_against_plain) : nothing,
         memory_cell(run.replica_bytes), sent > 0.0 ? bytes(sent) : nothing,
         steps == 0 ? nothing : fmt::format("{:.4f} at step {}", stats::loss_until(run, steps), steps)});
  }
  return table;
}

Table fact_table(const Result& result) {
  Table table{.title = "What the strategy says",
              .caption = "What it knows of a run beside what every run has.",
              .columns = {{"run"}, {"what"}, {"value", true}, {"meaning"}},
              .rows = {}};
  for (const auto& run : result.samples.runs) {
    for (const auto& fact : run.facts) {
      table.rows.push_back({run.plan.id, name_text(fact.name), value_text(fact), fact.meaning});
    }
  }
  return table;
}

Table memory_table(const Result& result) {
  Table table{
      .title = "Memory by rank",
      .caption = "What each replica asked for; activations are those of all its micro-batches in flight.",
      .columns = {{"run"},
                  {"rank"},
                  {"weights", true},
                  {"gradients", true},
                  {"optimizer", true},
                  {"activations", true},
                  {"in all", true},
                  {"peak", true}},
      .rows = {}};
  const auto& runs = result.samples.runs;
  if (std::ranges::none_of(runs, says_more_than_all)) return table;
  for (const auto& run : runs) {
    for (std::size_t rank = 0; rank < run.rank_memory.size(); ++rank) {
      const measure::RankMemory& memory = run.rank_memory[rank];
      table.rows.push_back({run.plan.id, fmt::format("rank {}", rank), memory_cell(memory.weights),
                            memory_cell(memory.gradients), memory_cell(memory.optimizer),
                            memory_cell(memory.activations), memory_cell(memory.allocated),
                            memory_cell(memory.peak)});
    }
  }
  return table;
}

}  // namespace dtrain::report
