#include "cli/baseline.hpp"

#include <algorithm>
#include <filesystem>

#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/comparison_output.hpp"
#include "cli/delivery.hpp"

namespace dtrain::cli {

namespace fs = std::filesystem;

namespace {

// Absolute, symbolic links followed, without a slash at its end.
fs::path whole(const fs::path& path) { return (fs::weakly_canonical(fs::absolute(path)) / "").parent_path(); }

bool is_at_or_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

// Whether what is read from the baseline next time holds the result of this time, which goes into `out` and
// as a copy of its own into out/history. A file there stays as it is.
bool takes_in(const fs::path& baseline, const fs::path& out) {
  if (baseline == out || baseline == out / "result.json") return true;
  if (!fs::is_directory(baseline) || fs::exists(baseline / "result.json")) return false;
  return is_at_or_below(baseline, out / "history") || is_at_or_below(out, baseline);
}

}  // namespace

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
  if (takes_in(whole(options.baseline), whole(options.out))) {
    throw usage_error(
        fmt::format("--baseline {}: the new result goes there, too, and would replace it or be added to it: "
                    "a regression would be its own baseline next time",
                    options.baseline),
        "keep the baseline in a folder of its own, or give another folder with --out DIR");
  }
  return compare::read_side(options.baseline);
}

void warn_of_other_work(const compare::Side& baseline, const report::Result& planned) {
  std::vector<std::string> keys;
  for (const auto& difference : compare::differences(baseline.results.front(), planned)) {
    const bool known_later = difference.key.starts_with("dataset.");
    if (difference.kind == compare::Difference::Kind::work && !known_later) keys.push_back(difference.key);
  }
  if (!baseline.results.front().samples.complete) keys.emplace_back("complete");
  if (keys.empty()) return;
  log_warning(fmt::format("{} will not do for a comparison, because these differ: {}", baseline.name,
                          join(keys, ", ")));
}

ExitCode judge_by_baseline(compare::Side baseline, const report::Result& result) {
  ComparisonFlags flags;
  flags.config.gate.max_regress = result.options.max_regress;
  const auto comparison = compare::compare(std::move(baseline), {result.options.out, {result}}, flags.config);
  write_comparison_files(comparison, result.options.out, {"markdown", "json", "junit"});
  if (is_asked(result.options, "console")) {
    deliver_comparison(comparison, flags);
  } else {
    log_warning(comparison.headline);
  }
  return compare::exit_code(comparison);
}

}  // namespace dtrain::cli
