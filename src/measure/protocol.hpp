#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "measure/samples.hpp"
#include "measure/step_record.hpp"

namespace dtrain::measure {

// Something whose steps can be measured. Knows nothing of protocols; the protocol knows nothing of training.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual const config::RunPlan& plan() const = 0;
  // All ranks begin together and take `steps` steps. Throws Error (run) when one fails, Interrupted when
  // asked to stop.
  virtual StretchRecord run(int steps) = 0;
  // Fills in what only the subject knows: losses, bytes, memory, hash, notes.
  virtual void describe(RunSamples& samples) = 0;
};

// Subjects are made when first needed, so that the cost of making them is seen by nobody's clock.
using SubjectMaker = std::function<std::unique_ptr<Subject>(const config::RunPlan&)>;

struct ProtocolConfig {
  int rounds = 5;
  std::optional<int> warmup_steps;  // none = until steady
  std::optional<int> steps;         // none = as many as min_time needs
  Seconds min_time{1.0};
};

// The warm-up rule: step times are taken in windows of `window` steps; warm-up ends when the medians of two
// windows in a row differ by less than `tolerance`, or after `limit`.
struct SteadyRule {
  int window = 5;
  double tolerance = 0.05;
  Seconds limit{3.0};
};

// Seen while measuring; reads nothing back. Called on the measuring thread between stretches.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void round_begins(const config::RunPlan& plan, int round, int rounds, bool warming_up) = 0;
  virtual void round_ended(const Samples& samples, std::size_t run, int round, int rounds) = 0;
};

// Measures every run of the plan in turns: round 1 of each, round 2 of each, ... A run that fails is reported
// in its RunSamples::failure and left out of later turns; the others go on. `stop` ends the measurement
// between rounds, with what was measured so far and complete = false.
Samples measure(const std::vector<config::RunPlan>& runs, const SubjectMaker& make,
                const ProtocolConfig& config, Observer& observer, const std::atomic<bool>& stop);

// One stretch reduced to a round's sample.
RoundSample reduce(const StretchRecord& stretch);

}  // namespace dtrain::measure
