#pragma once

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/tune_candidates.hpp"
#include "cli/tune_log.hpp"
#include "train/follower.hpp"

namespace dtrain::cli {

class Flags;

void declare_tune_flag(Flags& flags, config::Options& options);

// The session of `bench` before and after --tune: without that flag, the session that was opened.
//
// In a job every process has the same candidates. The chief searches; each candidate is a run of its own to
// the others, and the chief tells them which one won.
class Tuning {
 public:
  // Usage error where --tune was asked for and there is nothing to choose from.
  Tuning(Session session, const std::set<std::string>& given);

  const Session& opened() const { return opened_; }
  // With the flags that won.
  const Session& session() const;
  // By the id of a run: of the candidate that it measures, else session(). Not before the chief has searched,
  // which it waits for.
  const Session& session_of(const std::string& run);

  // On the chief, or alone: searches, shows what came out and writes DIR/tuning.json. Nothing without --tune.
  // False when `stop` ended it: then nothing was chosen.
  bool search(const std::string& command_line, const train::MakeWorld& make, const std::atomic<bool>& stop);

  std::string describe() const;  // for --dry-run: the candidates; empty without --tune
  std::string note() const;      // for the result: what was chosen; empty without --tune

 private:
  bool asked() const { return opened_.options.tune.has_value(); }
  std::string all_flags() const;
  const Session& candidate_session(int candidate);
  void tell_others(const std::string& key, const std::string& value) const;
  std::string ask_chief(const std::string& key) const;
  void choose(int winner);
  tune::Outcome find_winner(const train::MakeWorld& make, const std::atomic<bool>& stop);
  void keep(const tune::Outcome& outcome, const std::string& command_line);
  void show(const tune::Outcome& outcome) const;

  Session opened_;
  std::set<std::string> held_;
  std::vector<TuneCandidate> candidates_;
  std::map<int, Session> measured_;  // by candidate, with its one run
  std::optional<Session> chosen_;
  std::string note_;
};

}  // namespace dtrain::cli
