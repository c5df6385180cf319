#include "measure/protocol.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "measure/calibration.hpp"
#include "measure/noise.hpp"
#include "measure/warm_up.hpp"

namespace dtrain::measure {

namespace {

constexpr int probe_steps = 2;  // where warm-up was too short to plan by

// (max - min) / median of the calibration kernel over a run's rounds.
double calibration_spread(const std::vector<RoundSample>& rounds) {
  std::vector<double> times;
  for (const auto& round : rounds) times.push_back(round.calibration_seconds);
  if (times.empty()) return 0.0;
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  const double median = 0.5 * (times[(n - 1) / 2] + times[n / 2]);
  return median > 0.0 ? (times.back() - times.front()) / median : 0.0;
}

std::uint64_t skipped_in(const StretchRecord& stretch) {
  const auto& records = stretch.ranks.front();
  return static_cast<std::uint64_t>(
      std::count_if(records.begin(), records.end(), [](const StepRecord& r) { return r.skipped; }));
}

class Measurement {
 public:
  Measurement(const std::vector<config::RunPlan>& runs, const SubjectMaker& make,
              const ProtocolConfig& config, Observer& observer)
      : make_(make), config_(config), observer_(observer), turns_(runs.size()) {
    const double stamp = time_stamp();
    for (const auto& plan : runs) {
      samples_.runs.emplace_back().plan = plan;
      samples_.runs.back().stamp_seconds = stamp;
    }
  }

  Samples run(const std::atomic<bool>& stop) {
    samples_.complete = false;
    try {
      for (int round = 1; round <= config_.rounds; ++round) {
        for (std::size_t i = 0; i < turns_.size(); ++i) {
          if (stop.load()) return std::move(samples_);
          take_turn(round % 2 == 1 ? i : turns_.size() - 1 - i, round);
        }
      }
      samples_.complete = true;
    } catch (const Interrupted&) {
    } catch (const JobEnded&) {  // the run's failure says why
    }
    return std::move(samples_);
  }

 private:
  // What is kept of a run between its rounds.
  struct Turn {
    std::unique_ptr<Subject> subject;
    NoiseMeter noise;
    double step_seconds = 0.0;  // of the last round; 0 before the first
  };

  void take_turn(std::size_t run, int round) {
    if (!samples_.runs[run].failure.empty()) return;
    try {
      measure_round(run, round);
    } catch (const JobEnded& error) {
      fail(run, round, error);
      throw;
    } catch (const Error& error) {
      if (error.category() != ErrorCategory::run) throw;
      fail(run, round, error);
      return;
    }
    samples_.peak_process_bytes = peak_process_bytes();
    observer_.round_ended(samples_, run, round, config_.rounds);
  }

  void fail(std::size_t run, int round, const Error& error) {
    turns_[run].subject.reset();
    std::string& failure = samples_.runs[run].failure;
    failure = error.what();
    if (failure.empty()) failure = "failed without a reason";
    if (!error.advice().empty()) failure += "; " + error.advice();
    samples_.peak_process_bytes = peak_process_bytes();
    observer_.run_failed(samples_, run, round, config_.rounds);
  }

  void measure_round(std::size_t run, int round) {
    Turn& turn = turns_[run];
    const config::RunPlan& plan = samples_.runs[run].plan;
    if (!turn.subject) {
      turn.subject = make_(plan);
      turn.noise.count_as_own(turn.subject->processes());
    }

    observer_.round_begins(plan, round, config_.rounds, true);
    const double speed_before = calibrate();
    const WarmUp warm = warm_up_to_plan(turn);

    observer_.round_begins(plan, round, config_.rounds, false);
    const int steps = config_.steps ? *config_.steps : steps_for(config_.min_time, warm.step_seconds);
    turn.noise.take_in(turn.subject->conditions());
    turn.noise.begin();
    const TimePoint begin = Clock::now();
    const StretchRecord stretch = turn.subject->run(steps);
    const double wall = seconds(Clock::now() - begin);
    turn.noise.end();
    turn.noise.take_in(turn.subject->conditions());

    RoundSample sample = reduce(stretch);
    sample.wall_seconds = wall;
    sample.warmup_steps = warm.steps;
    sample.calibration_seconds = 0.5 * (speed_before + calibrate());
    turn.step_seconds = sample.seconds / sample.steps;
    observer_.stretch_ended(plan, round, stretch);
    record(run, std::move(sample), skipped_in(stretch));
  }

  WarmUp warm_up_to_plan(Turn& turn) {
    WarmUp warm = warm_up(*turn.subject, config_.warmup_steps, config_.steady, turn.step_seconds);
    if (config_.steps || warm.trusted) return warm;
    const auto times = step_times(turn.subject->run(probe_steps));
    warm.step_seconds = *std::min_element(times.begin(), times.end());
    warm.steps += probe_steps;
    return warm;
  }

  void record(std::size_t run, RoundSample sample, std::uint64_t skipped) {
    RunSamples& samples = samples_.runs[run];
    samples.measured_steps += static_cast<std::uint64_t>(sample.steps);
    samples.skipped_steps += skipped;
    samples.rounds.push_back(std::move(sample));
    samples.noise = turns_[run].noise.reading();
    samples.noise.calibration_spread = calibration_spread(samples.rounds);
    samples.losses.clear();
    samples.notes.clear();
    turns_[run].subject->describe(samples);
    if (!turns_[run].noise.load_known()) {
      samples.notes.emplace_back("load by other processes was not measured: /proc/stat cannot be read here");
    }
  }

  const SubjectMaker& make_;
  const ProtocolConfig& config_;
  Observer& observer_;
  std::vector<Turn> turns_;
  Samples samples_;
};

}  // namespace

Samples measure(const std::vector<config::RunPlan>& runs, const SubjectMaker& make,
                const ProtocolConfig& config, Observer& observer, const std::atomic<bool>& stop) {
  return Measurement(runs, make, config, observer).run(stop);
}

}  // namespace dtrain::measure
