#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/registry.hpp"

namespace dtrain::train {

struct ScheduleConfig {
  double peak = 1e-3;  // the --lr
  std::int64_t total_steps =
      0;  // 0 = not known (bench): cosine and one-cycle then hold the peak after warm-up
  std::int64_t warmup_steps = 0;  // linear from 0 to the peak: step s has (s + 1) / warmup_steps of it
};

// The learning rate of each step, counted from 0: a pure function.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double learning_rate(std::int64_t step) const = 0;
};

using ScheduleMaker = std::unique_ptr<Schedule> (*)(const ScheduleConfig&);

// constant; cosine (to zero, Loshchilov, Hutter 2017); one_cycle (linear up over 30 % of the steps, or over
// warmup_steps where given, then linear down to zero, after Smith, Topin 2018). After total_steps both stay
// at zero.
const Registry<ScheduleMaker>& schedules();

}  // namespace dtrain::train
