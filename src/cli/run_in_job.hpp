#pragma once

#include <functional>
#include <string>

#include "cli/session.hpp"
#include "train/follower.hpp"

namespace dtrain::cli {

// Does the command's work: `lead` in a process that is alone or the chief of its job; `make` says how the
// others make a run of the plan that they are told to join. Returns what `lead` does, or on the others how
// the job ended.
ExitCode run_in_job(const Session& session, const train::MakeWorld& make,
                    const std::function<ExitCode()>& lead);

// A task that TF_CONFIG calls an evaluator has no part in this command.
ExitCode say_evaluator_is_idle(const std::string& command);

// For --dry-run: shows what would run, where, and in one line (`work`) how much of it, with `more` below;
// then leaves the job.
ExitCode show_plan(const Session& session, const std::string& work, const std::string& more = {});

// The same as text.
std::string describe_plan(const Session& session, const std::string& work);

}  // namespace dtrain::cli
