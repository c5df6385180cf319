#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
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
  // Fills in what only the subject knows: losses, bytes, memory, hash, notes. Called off the clock after
  // every measured stretch, with measured_steps and skipped_steps counted and with losses and notes empty.
  virtual void describe(RunSamples& samples) = 0;
  // Of the devices it works on, where their drivers tell. Called off the clock, around measured stretches.
  virtual std::vector<config::DeviceCondition> conditions() { return {}; }
  // Others on this machine that work on it too: their load is no noise.
  virtual std::vector<int> processes() const { return {}; }
};

// Subjects are made when first needed, so that the cost of making them is seen by nobody's clock.
using SubjectMaker = std::function<std::unique_ptr<Subject>(const config::RunPlan&)>;

// The warm-up rule: step times are taken in windows of `window` steps; warm-up ends when the medians of two
// windows in a row differ by less than `tolerance`, or after `limit`, which cuts the last window short. A
// subject's very first step (allocation, first touch, compilation) belongs to no window and does not count
// towards the limit; its second only shows how long steps take.
struct SteadyRule {
  int window = 5;
  double tolerance = 0.05;
  Seconds limit{3.0};
};

struct ProtocolConfig {
  int rounds = 5;
  std::optional<int> warmup_steps;  // a round; none = until steady
  std::optional<int> steps;         // a round; none = as many as min_time needs
  Seconds min_time{1.0};
  SteadyRule steady;
};

// Seen while measuring; reads nothing back. Called on the measuring thread between stretches. Rounds count
// from 1.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void round_begins(const config::RunPlan& plan, int round, int rounds, bool warming_up) = 0;
  // `samples` holds everything so far, this round included: the moment to write it to a file.
  virtual void round_ended(const Samples& samples, std::size_t run, int round, int rounds) = 0;
  // The measured stretch itself, for a trace; gone after the call.
  virtual void stretch_ended(const config::RunPlan&, int /*round*/, const StretchRecord&) {}
  // Instead of round_ended, when the run failed: RunSamples::failure says why.
  virtual void run_failed(const Samples&, std::size_t /*run*/, int /*round*/, int /*rounds*/) {}
};

// Measures every run of the plan in turns: round 1 of each, round 2 of each, ... Every second turn goes
// through the runs backwards (1,2,4 then 4,2,1), so that a drift that is the same in every turn favours none
// of them.
//
// A round is: calibration, warm-up, the measured stretch, calibration. Without ProtocolConfig::steps the
// stretch has the steps that min_time needs at the median step time of the warm-up's last window; where too
// few steps were warmed up to know that, the first round takes two more, counted as warm-up.
//
// A run that fails (an Error of category run) is reported in its RunSamples::failure and left out of later
// turns; the others go on, unless the job has ended (JobEnded), which leaves complete = false. Errors of
// other categories end the measurement. `stop` ends it between rounds, Interrupted at once; both keep what
// was measured and leave complete = false. Otherwise complete = true: the protocol ran to its end, whether or
// not a run failed.
Samples measure(const std::vector<config::RunPlan>& runs, const SubjectMaker& make,
                const ProtocolConfig& config, Observer& observer, const std::atomic<bool>& stop);

// One stretch reduced to a round's sample.
//
// seconds: from the common start to the last rank's last end. step_seconds: from the moment the last rank
// ended the step before to the moment the last rank ended this one, so that they add up to seconds. images:
// counted from the records. A rank's mean step runs from the common start to its own last end, and host is
// what its phases leave of it. Arrivals count in steps in which every rank stamped one: straggler_wait = last
// arrival - own (at most communicated - own; none where a rank was done before the last arrived, because
// nobody waits for anybody there); lateness = own - median of the other ranks', each since it left
// the last collective, over all steps (for two ranks: the other's). A lone rank is never last.
//
// Throws Error (run), naming rank and step, where stamps cannot be true: out of order, negative, or phases
// that add up to more than their step.
RoundSample reduce(const StretchRecord& stretch);

// Times between the ends of consecutive steps, as above, all of them.
std::vector<double> step_times(const StretchRecord& stretch);

}  // namespace dtrain::measure
