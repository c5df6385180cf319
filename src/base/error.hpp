#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace dtrain {

// What went wrong decides the exit code: usage 2, environment 3, data 4, run 5. Codes 1 and 6 are verdicts of
// a comparison, not errors; 130 is an interruption.
enum class ErrorCategory { usage, environment, data, run };

enum class ExitCode : int {
  fine = 0,
  regression = 1,
  usage = 2,
  environment = 3,
  data = 4,
  run = 5,
  no_verdict = 6,
  interrupted = 130,
};

// The one exception type. `what()` is a line that names the culprit (rank, file, offset, key, value);
// `advice()` is a line that says what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ErrorCategory category, const std::string& what, std::string advice)
      : std::runtime_error(what), category_(category), advice_(std::move(advice)) {}

  ErrorCategory category() const { return category_; }
  const std::string& advice() const { return advice_; }

 private:
  ErrorCategory category_;
  std::string advice_;
};

// A process of the job is gone or has given up, and with it the whole job, not only the run in which that was
// noticed.
class JobEnded : public Error {
 public:
  JobEnded(const std::string& what, std::string advice)
      : Error(ErrorCategory::run, what, std::move(advice)) {}
};

// Thrown by long work when the user asked it to stop; carries no message because it is no error.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

ExitCode exit_code(ErrorCategory category);
std::string_view name(ErrorCategory category);

inline Error usage_error(const std::string& what, std::string advice) {
  return {ErrorCategory::usage, what, std::move(advice)};
}
inline Error environment_error(const std::string& what, std::string advice) {
  return {ErrorCategory::environment, what, std::move(advice)};
}
inline Error data_error(const std::string& what, std::string advice) {
  return {ErrorCategory::data, what, std::move(advice)};
}
inline Error run_error(const std::string& what, std::string advice) {
  return {ErrorCategory::run, what, std::move(advice)};
}

}  // namespace dtrain
