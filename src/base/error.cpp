#include "base/error.hpp"

namespace dtrain {

ExitCode exit_code(ErrorCategory category) {
  switch (category) {
    case ErrorCategory::usage:
      return ExitCode::usage;
    case ErrorCategory::environment:
      return ExitCode::environment;
    case ErrorCategory::data:
      return ExitCode::data;
    case ErrorCategory::run:
      return ExitCode::run;
  }
  return ExitCode::run;
}

std::string_view name(ErrorCategory category) {
  switch (category) {
    case ErrorCategory::usage:
      return "usage";
    case ErrorCategory::environment:
      return "environment";
    case ErrorCategory::data:
      return "data";
    case ErrorCategory::run:
      return "run";
  }
  return "run";
}

}  // namespace dtrain
