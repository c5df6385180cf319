#include <exception>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/command_line.hpp"

// The only place where an error is printed and turned into an exit code.
int main(int argc, char** argv) {
  using namespace dtrain;
  ExitCode code = ExitCode::fine;
  try {
    code = cli::run(argc, argv);
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
