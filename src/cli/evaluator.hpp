#pragma once

#include <atomic>

#include "cli/session.hpp"

namespace dtrain::cli {

// What TF_CONFIG's evaluator does beside a job that trains: evaluates every checkpoint as it appears, on the
// test images, until the last epoch. Usage error without --checkpoint; run error where none comes in time.
ExitCode evaluate_checkpoints(const Session& session, const std::atomic<bool>& stop);

}  // namespace dtrain::cli
