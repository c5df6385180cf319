#pragma once

#include <optional>

#include "cli/flags.hpp"
#include "compare/comparison.hpp"
#include "config/options.hpp"

namespace dtrain::cli {

void declare_baseline_flags(Flags& flags, config::Options& options);

// What --baseline names, read before anything is measured, so that a file that is none costs no time. None
// without the flag. Usage error where the new result would replace it or join it.
std::optional<compare::Side> read_baseline(const config::Options& options);

// Says what differs already before the measurement, so that nobody waits for a verdict that cannot be.
void warn_of_other_work(const compare::Side& baseline, const report::Result& planned);

// Holds the result against it: shows the verdict, writes comparison.md, .json and .xml beside the result, and
// says how the command ends.
ExitCode judge_by_baseline(compare::Side baseline, const report::Result& result);

}  // namespace dtrain::cli
