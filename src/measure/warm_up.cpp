#include "measure/warm_up.hpp"

#include <algorithm>
#include <cmath>

namespace dtrain::measure {

namespace {

constexpr int trusted_steps = 3;
constexpr double spare = 1.05;         // a stretch should not fall short because it ran a little faster
constexpr int most_steps = 1'000'000;  // bounds the memory that records take

double median_of_last(std::vector<double> times, int count) {
  const auto kept = std::min(times.size(), static_cast<std::size_t>(count));
  times.erase(times.begin(), times.end() - static_cast<std::ptrdiff_t>(kept));
  std::sort(times.begin(), times.end());
  return 0.5 * (times[(kept - 1) / 2] + times[kept / 2]);
}

WarmUp fixed_steps(Subject& subject, int steps, const SteadyRule& rule, double known) {
  WarmUp done{.steps = steps, .step_seconds = known, .trusted = known > 0.0};
  if (steps <= 0) return done;
  auto times = step_times(subject.run(steps));
  if (known <= 0.0 && times.size() > 1) times.erase(times.begin());
  done.step_seconds = median_of_last(times, rule.window);
  done.trusted = done.trusted || steps >= trusted_steps;
  return done;
}

// As many steps of a window as are likely to end before the limit.
int within_limit(const SteadyRule& rule, double elapsed, double step_seconds) {
  const double left = (rule.limit.count() - elapsed) / step_seconds;
  return static_cast<int>(std::clamp(std::floor(left), 1.0, static_cast<double>(rule.window)));
}

WarmUp until_steady(Subject& subject, const SteadyRule& rule, double known) {
  WarmUp done{.step_seconds = known, .trusted = true};
  if (known <= 0.0) subject.run(1);
  const TimePoint begin = Clock::now();
  const auto elapsed = [&] { return seconds(Clock::now() - begin); };
  if (known <= 0.0) {
    done.step_seconds = step_times(subject.run(1)).front();
    done.steps = 2;
  }
  double previous = 0.0;
  do {
    const int steps = within_limit(rule, elapsed(), done.step_seconds);
    done.step_seconds = median_of_last(step_times(subject.run(steps)), steps);
    done.steps += steps;
    if (steps < rule.window) continue;
    if (previous > 0.0 && std::abs(done.step_seconds - previous) < rule.tolerance * previous) break;
    previous = done.step_seconds;
  } while (elapsed() < rule.limit.count());
  return done;
}

}  // namespace

WarmUp warm_up(Subject& subject, std::optional<int> steps, const SteadyRule& rule,
               double known_step_seconds) {
  return steps ? fixed_steps(subject, *steps, rule, known_step_seconds)
               : until_steady(subject, rule, known_step_seconds);
}

int steps_for(Seconds min_time, double step_seconds) {
  if (step_seconds <= 0.0) return 1;
  const double steps = std::ceil(spare * min_time.count() / step_seconds);
  return static_cast<int>(std::clamp(steps, 1.0, static_cast<double>(most_steps)));
}

}  // namespace dtrain::measure
