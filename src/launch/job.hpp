#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "launch/ending.hpp"
#include "launch/process.hpp"
#include "launch/signals.hpp"

namespace dtrain::launch {

struct JobProcess {
  std::string title;  // "worker 1"
  ProcessSpec spec;
  std::filesystem::path log;
};

struct JobConfig {
  std::vector<JobProcess> processes;
  Seconds timeout{20.0};  // in which processes notice that another is lost
  Seconds grace{5.0};     // beyond it, and between asking to end and killing
  std::string again;      // why it is started again: logs go on, below this line. Empty: they begin
  std::function<void(const std::vector<pid_t>&)> on_start;  // all have been started, nothing was relayed yet
};

struct JobOutcome {
  std::vector<Ending> endings;  // in the order of the processes
  int interrupted_by = 0;       // the signal that asked this process to end; 0: none
  bool port_taken = false;      // the first to fail had found its address in use
  int repeated_errors = 0;      // not shown again, because another process had said the same
};

// Starts the processes, relays what they write, and returns when all have ended. When one fails the others
// get timeout and grace to end by themselves, and so they do after a first SIGINT, SIGTERM or SIGHUP, which
// is passed on; then they get SIGTERM, and after another grace SIGKILL. A second signal kills them at once.
// When a process found its port taken, so that there is no job yet, the others get SIGTERM at once.
// None outlives the call, or this process.
JobOutcome run_job(const JobConfig& config, Signals& signals);

}  // namespace dtrain::launch
