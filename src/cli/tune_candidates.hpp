#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cli/session.hpp"

namespace dtrain::cli {

// A setting of the flags that change how fast a step is and not what it computes.
struct TuneCandidate {
  std::string
      flags;  // that differ from the session's, as one would type them; empty for the session as it is
  std::function<void(config::Options&)> set;
};

// The session as it is, then others in an order that its seed decides: bucket size, overlap, algorithm of the
// all-reduce, threads of a CPU replica and prefetch, as far as they mean something to the run of the largest
// N. Flags that were `given` stay as they are.
std::vector<TuneCandidate> tune_candidates(const Session& session, const std::set<std::string>& given);

// The session with that setting: options, and where replicas are.
Session with_candidate(const Session& session, const TuneCandidate& candidate);

}  // namespace dtrain::cli
