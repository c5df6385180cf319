#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace dtrain::launch {

// How a process ended: by a signal, or by itself with an exit code.
struct Ending {
  int code = 0;
  int signal = 0;              // 0: none
  double seconds = 0.0;        // after the job was started
  bool brought_about = false;  // by a signal that launch had sent

  bool failed() const;  // a comparison's verdict (1, 6) is no failure
  // "ended with exit code 3 (environment)", "was ended by signal 9 (Killed)"
  std::string describe() const;
};

// Which process brought the job down, as a place in `endings`: the first that failed of its own. A process
// that ended with 5 may only echo what ended another a moment later; then it is that one.
std::optional<std::size_t> cause_of(const std::vector<Ending>& endings);

// The job's exit code: that of the process which brought it down, 5 where a signal ended it, else the first
// verdict, else 0.
ExitCode exit_code_of(const std::vector<Ending>& endings);

}  // namespace dtrain::launch
