#pragma once

#include <string>

#include "base/units.hpp"
#include "launch/ending.hpp"
#include "launch/process.hpp"
#include "launch/signals.hpp"

namespace dtrain::launch {

struct Captured {
  Ending ending;
  std::string out;
  std::string error;
  int interrupted_by = 0;  // the signal that asked this process to end; it was passed on; 0: none
  bool timed_out = false;  // it was still running at the deadline, and was killed
};

// Runs one process to its end and keeps what it writes.
Captured run_captured(const ProcessSpec& spec, Signals& signals, Deadline deadline);

}  // namespace dtrain::launch
