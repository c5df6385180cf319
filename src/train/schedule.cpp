#include "train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dtrain::train {
namespace {

// Step s of w has (s + 1) / w of the peak: the line starts at 0 one step before the first, so that none is
// wasted on a rate of 0.
double ramp(std::int64_t step, std::int64_t steps) {
  return steps <= 0 ? 1.0 : std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(steps));
}

// How far a step is on its way from `begin` to `end`, 0 to 1.
double progress(std::int64_t step, std::int64_t begin, std::int64_t end) {
  if (step >= end) return 1.0;
  if (step <= begin) return 0.0;
  return static_cast<double>(step - begin) / static_cast<double>(end - begin);
}

class Scheduled : public Schedule {
 public:
  explicit Scheduled(const ScheduleConfig& config) : config_(config) {}

 protected:
  ScheduleConfig config_;
};

class Constant final : public Scheduled {
 public:
  using Scheduled::Scheduled;
  double learning_rate(std::int64_t step) const override {
    return config_.peak * ramp(step, config_.warmup_steps);
  }
};

class Cosine final : public Scheduled {
 public:
  using Scheduled::Scheduled;
  double learning_rate(std::int64_t step) const override {
    const double warm = ramp(step, config_.warmup_steps);
    if (step < config_.warmup_steps || config_.total_steps <= 0) return config_.peak * warm;
    const double way = progress(step, config_.warmup_steps, config_.total_steps);
    return config_.peak * 0.5 * (1.0 + std::cos(std::numbers::pi * way));
  }
};

class OneCycle final : public Scheduled {
 public:
  explicit OneCycle(const ScheduleConfig& config) : Scheduled(config), rise_(config.warmup_steps) {
    if (rise_ <= 0) rise_ = std::llround(0.3 * static_cast<double>(config.total_steps));
  }
  double learning_rate(std::int64_t step) const override {
    if (step < rise_ || config_.total_steps <= 0) return config_.peak * ramp(step, rise_);
    return config_.peak * (1.0 - progress(step, rise_, config_.total_steps));
  }

 private:
  std::int64_t rise_;
};

template <class Kind>
std::unique_ptr<Schedule> make(const ScheduleConfig& config) {
  return std::make_unique<Kind>(config);
}

}  // namespace

const Registry<ScheduleMaker>& schedules() {
  static const auto table = [] {
    Registry<ScheduleMaker> filled("schedule");
    filled.add("constant", "the same rate throughout", make<Constant>);
    filled.add("cosine", "half a cosine wave down to zero", make<Cosine>);
    filled.add("one_cycle", "linear up over 30 % of the steps, then linear down to zero", make<OneCycle>);
    return filled;
  }();
  return table;
}

}  // namespace dtrain::train
