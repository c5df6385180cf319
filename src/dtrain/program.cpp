#include "dtrain/program.hpp"

#include <new>

#include "base/log.hpp"
#include "cli/command_line.hpp"

namespace dtrain {

int run_program(const std::function<ExitCode()>& body) {
  ExitCode code = ExitCode::fine;
  try {
    code = body();
  } catch (const Interrupted&) {
    log_warning("interrupted");
    code = ExitCode::interrupted;
  } catch (const Error& error) {
    const std::string advice = error.advice().empty() ? "" : "\n  -> " + error.advice();
    log_error(error.what() + advice);
    code = exit_code(error.category());
  } catch (const std::bad_alloc&) {
    log_error("out of memory");
    code = ExitCode::environment;
  } catch (const std::exception& error) {
    log_error(std::string("unexpected: ") + error.what());
    code = ExitCode::run;
  }
  return static_cast<int>(code);
}

ExitCode run_command_line(int argc, const char* const* argv) { return cli::run(argc, argv); }

}  // namespace dtrain
