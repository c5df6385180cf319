#include "cli/baseline.hpp"

#include "cli/comparison_output.hpp"
#include "cli/delivery.hpp"

namespace dtrain::cli {

void declare_baseline_flags(Flags& flags, config::Options& options) {
  flags.group("Verdict");
  flags.path("--baseline", "FILE",
             "Result to hold this one against: exit 1 if worse, 6 if that cannot be told", options.baseline);
  flags.value("--max-regress", "RATE",
              fmt::format("Loss against the baseline that is let pass [{:g}%]", 100.0 * options.max_regress),
              [&options](const std::string& text) {
                options.max_regress = config::parse_rate(text, "--max-regress");
              });
}

std::optional<compare::Side> read_baseline(const config::Options& options) {
  if (options.baseline.empty()) return std::nullopt;
  return compare::read_side(options.baseline);
}

ExitCode judge_by_baseline(compare::Side baseline, const report::Result& result) {
  ComparisonFlags flags;
  flags.config.gate.max_regress = result.options.max_regress;
  const auto comparison = compare::compare(std::move(baseline), {result.options.out, {result}}, flags.config);
  flags.formats.clear();
  if (is_asked(result.options, "console")) flags.formats.emplace_back("console");
  deliver_comparison(comparison, flags);
  if (is_asked(result.options, "json")) {
    write_comparison_files(comparison, result.options.out, {"markdown", "json", "junit"});
  }
  return compare::exit_code(comparison);
}

}  // namespace dtrain::cli
