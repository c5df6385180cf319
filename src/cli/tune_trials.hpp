#pragma once

#include "cli/progress_line.hpp"
#include "cli/tune_candidates.hpp"
#include "measure/protocol.hpp"
#include "tune/search.hpp"

namespace dtrain::cli {

// The run by which a candidate is measured, and back: none for other runs.
std::string tune_run_id(int candidate);
std::optional<int> candidate_of_run(const std::string& run);

// Measures candidates as bench measures its runs: calibration, warm-up, a stretch. Each stretch has a world
// of its own, so that neither the memory of many worlds is needed at once nor luck in placing one is taken
// for a gain.
class TuneTrials final : public tune::Trials, private measure::Observer {
 public:
  struct Subject {
    config::RunPlan plan;
    std::unique_ptr<measure::Subject> world;
  };
  using MakeSubject = std::function<Subject(int candidate)>;

  TuneTrials(const config::Options& options, const std::vector<TuneCandidate>& candidates, MakeSubject make,
             const std::atomic<bool>& stop);

  double measure(int candidate) override;
  double elapsed() const override;
  void rung_ended(const tune::Rung& rung) override;

 private:
  void round_begins(const config::RunPlan&, int, int, bool) override {}
  void round_ended(const measure::Samples&, std::size_t, int, int) override {}

  Seconds budget_;
  measure::ProtocolConfig protocol_;
  const std::vector<TuneCandidate>* candidates_;
  MakeSubject make_;
  const std::atomic<bool>* stop_;
  TimePoint begin_ = Clock::now();
  ProgressLine progress_;
};

}  // namespace dtrain::cli
