#include "cli/delivery.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>

#include "base/error.hpp"
#include "cli/output.hpp"
#include "report/console.hpp"
#include "report/files.hpp"

namespace dtrain::cli {

bool is_asked(const config::Options& options, const std::string& format) {
  return std::find(options.formats.begin(), options.formats.end(), format) != options.formats.end();
}

void deliver(const report::Result& result, bool header_shown) {
  std::exception_ptr failure;
  try {
    report::write_outputs(result.options.out, result.options.formats, result);
    if (is_asked(result.options, "json")) report::keep_in_history(result.options.out, result);
  } catch (const Error&) {
    failure = std::current_exception();
  }
  if (is_asked(result.options, "console")) {
    const auto style = report::console_style(STDOUT_FILENO);
    const std::string header = header_shown ? "" : report::render_header(result, style);
    print_out(header + report::render_report(result, style));
  }
  if (failure) std::rethrow_exception(failure);
}

void show_header(const report::Result& result, const std::vector<config::RunPlan>& runs) {
  if (!is_asked(result.options, "console")) return;
  report::Result planned = result;
  for (const auto& run : runs) planned.samples.runs.emplace_back().plan = run;
  print_out(report::render_header(planned, report::console_style(STDOUT_FILENO)));
}

}  // namespace dtrain::cli
