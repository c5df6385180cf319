#include <algorithm>

#include "report/format.hpp"
#include "report/tables.hpp"
#include "stats/choice.hpp"

namespace dtrain::report {

namespace {

constexpr const char* nothing = "-";

std::string bytes_a_step(std::uint64_t total, const measure::RunSamples& run) {
  if (run.measured_steps == 0) return nothing;
  return bytes(static_cast<double>(total) / static_cast<double>(run.measured_steps));
}

std::string ratio(const measure::RunSamples& run) {
  if (run.bytes_sent == 0 || run.bytes_uncompressed == 0) return nothing;
  return factor(static_cast<double>(run.bytes_uncompressed) / static_cast<double>(run.bytes_sent));
}

std::string staleness(const measure::RunSamples& run) {
  if (!run.staleness) return nothing;
  return fmt::format("{:.2f}, at most {}", run.staleness->mean(), run.staleness->max());
}

// The run with the same replicas and images whose sums are exact.
const measure::RunSamples* exact_of(const Result& result, const measure::RunSamples& run) {
  const auto found = std::ranges::find_if(result.samples.runs, [&](const auto& other) {
    return other.plan.exact && other.plan.replicas == run.plan.replicas;
  });
  return found == result.samples.runs.end() || run.plan.exact ? nullptr : &*found;
}

std::vector<std::string> loss_cells(const Result& result, const measure::RunSamples& run) {
  if (run.losses.empty()) return {nothing, nothing};
  const auto* exact = exact_of(result, run);
  if (exact == nullptr || exact->losses.empty()) {
    return {fmt::format("{:.4f} at step {}", stats::loss_until(run, run.losses.size()), run.losses.size()),
            nothing};
  }
  const std::size_t steps = std::min(run.losses.size(), exact->losses.size());
  return {fmt::format("{:.4f} at step {}", stats::loss_until(run, steps), steps),
          fmt::format("{:.4f}", stats::loss_until(*exact, steps))};
}

}  // namespace

Table exchange_table(const Result& result) {
  Table table{
      .title = "Exchange",
      .caption =
          "Sent: by rank 0 (or its worker) in a step, to others. Ratio: what that would be without "
          "compression / sent. Staleness: updates by others between the weights of a gradient and "
          "its own update, mean over all gradients. Loss: mean of the last 10 of so many steps; "
          "exact: of the run with the same replicas and images whose sums are exact, at the same step.",
      .columns = {{"run"},
                  {"sent a step", true},
                  {"ratio", true},
                  {"staleness", true},
                  {"dropped", true},
                  {"loss", true},
                  {"exact", true}},
      .rows = {}};
  for (const auto& run : result.samples.runs) {
    const bool exchanges = run.bytes_sent > 0 || run.staleness || run.dropped_gradients > 0 || run.plan.exact;
    if (!exchanges || run.plan.replicas < 2) continue;
    auto& row = table.rows.emplace_back(std::vector<std::string>{
        run.plan.id, bytes_a_step(run.bytes_sent, run), ratio(run), staleness(run),
        run.dropped_gradients == 0 ? nothing : std::to_string(run.dropped_gradients)});
    for (auto& cell : loss_cells(result, run)) row.push_back(std::move(cell));
  }
  return table;
}

}  // namespace dtrain::report
