#include "stats/steadiness.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.hpp"
#include "stats/interval.hpp"

namespace dtrain::stats {

namespace {

constexpr double significant = 1.96;              // of the normal distribution
constexpr double explained_by_two_groups = 0.85;  // one normal hump: 0.64, a uniform one: 0.75
constexpr double least_group = 0.15;
constexpr std::size_t least_steps_for_groups = 40;

struct Evidence {
  std::vector<double> rates;   // images/s
  std::vector<double> speeds;  // of the machine, 1 / calibration, where there are any
  std::vector<double> step_seconds;
  double seconds = 0.0;
};

Evidence gather(const measure::RunSamples& run) {
  Evidence evidence;
  for (const auto& round : run.rounds) {
    if (round.seconds <= 0.0) continue;
    evidence.rates.push_back(static_cast<double>(round.images) / round.seconds);
    if (round.calibration_seconds > 0.0) evidence.speeds.push_back(1.0 / round.calibration_seconds);
    evidence.step_seconds.insert(evidence.step_seconds.end(), round.step_seconds.begin(),
                                 round.step_seconds.end());
    evidence.seconds += round.seconds;
  }
  return evidence;
}

void judge_drift(const Evidence& evidence, std::vector<std::string>& reasons) {
  const double drift = significant_drift(evidence.rates);
  if (std::abs(drift) <= drift_limit) return;
  const double machine = significant_drift(evidence.speeds);
  const bool same_way = machine * drift > 0.0 && std::abs(machine) > 0.5 * std::abs(drift);
  reasons.push_back(fmt::format(
      "the rate drifts: {:+.1f} % from the first to the last round; {}", 100.0 * drift,
      same_way
          ? fmt::format(
                "the calibration kernel shows the machine's own speed change by {:+.1f} % (heat, clock "
                "frequency, neighbours): let it settle, fix the clock, or measure later",
                100.0 * machine)
          : "the calibration kernel does not show it, so that it comes from the program or its data: measure "
            "longer with --min-time, and look at memory and at the input"));
}

void judge_spread(const Evidence& evidence, std::vector<std::string>& reasons) {
  const Interval rate = bootstrap_median(evidence.rates);
  if (rate.rounds < 2) {
    reasons.emplace_back(
        "only one round was measured, which says nothing of how much it varies: use --rounds 5 or more");
    return;
  }
  const double uncertainty = 0.5 * (rate.high - rate.low) / rate.median;
  if (!(uncertainty > uncertainty_limit)) return;
  const auto [least, most] = std::minmax_element(evidence.rates.begin(), evidence.rates.end());
  reasons.push_back(fmt::format(
      "the median of {} rounds is known to no better than ±{:.1f} % (rounds from {:.4g} to {:.4g} images/s): "
      "use more --rounds, a longer --min-time, or a quieter machine",
      rate.rounds, 100.0 * uncertainty, *least, *most));
}

void judge_noise(const measure::NoiseReading& noise, double seconds, std::vector<std::string>& reasons) {
  const bool known = seconds >= least_seconds_for_load;
  if (known && noise.foreign_load > foreign_load_limit) {
    reasons.push_back(fmt::format(
        "other processes kept {:.2f} cores busy: stop them, or measure when they rest", noise.foreign_load));
  }
  if (known && noise.stolen > stolen_limit) {
    reasons.push_back(
        fmt::format("the hypervisor took {:.2f} cores away: measure on a machine of your own, or when its "
                    "neighbours rest",
                    noise.stolen));
  }
  if (noise.throttled_seconds > throttled_limit * seconds) {
    reasons.push_back(
        fmt::format("the control group's CPU quota stopped the process for {} of {}: raise the "
                    "quota, or ask for fewer replicas or threads",
                    format_duration(noise.throttled_seconds), format_duration(seconds)));
  }
  if (noise.calibration_spread > calibration_limit) {
    reasons.push_back(fmt::format(
        "the machine's own speed changed by {:.1f} % between rounds (calibration kernel): fix the "
        "clock frequency, let it cool, or measure when it is idle",
        100.0 * noise.calibration_spread));
  }
}

// A clock below the highest is no fault by itself: somebody may have set it, to measure well.
void judge_devices(const std::vector<config::DeviceCondition>& devices, std::vector<std::string>& reasons) {
  for (const auto& device : devices) {
    const bool slow =
        device.clock_mhz <= 0.0 || device.clock_mhz < slow_clock_limit * device.highest_clock_mhz;
    if (!device.slowed_by.empty() && slow) {
      reasons.push_back(fmt::format(
          "GPU {} was slowed by {} to {:.0f} of {:.0f} MHz: cool it, raise its power limit, or fix its clock "
          "lower (nvidia-smi -lgc)",
          device.device, join(device.slowed_by, " and "), device.clock_mhz, device.highest_clock_mhz));
    }
    if (device.other_processes > 0) {
      const std::string held =
          device.other_bytes > 0 ? fmt::format(" ({})", format_bytes(static_cast<double>(device.other_bytes)))
                                 : std::string();
      reasons.push_back(fmt::format(
          "{} other process{} used GPU {}{}: stop them, or take other GPUs with CUDA_VISIBLE_DEVICES",
          device.other_processes, device.other_processes == 1 ? "" : "es", device.device, held));
    }
  }
}

void judge_groups(const Evidence& evidence, std::vector<std::string>& reasons) {
  const TwoGroups groups = split_in_two(evidence.step_seconds);
  if (!groups.found || groups.high - groups.low <= bimodal_limit * 0.5 * (groups.high + groups.low)) return;
  reasons.push_back(fmt::format(
      "steps fall into two groups: {:.0f} % take about {}, the others {}; a median hides that: look for what "
      "comes and goes (clock frequency, another process, the last batch of an epoch)",
      100.0 * groups.high_share, format_duration(groups.high), format_duration(groups.low)));
}

}  // namespace

double significant_drift(std::span<const double> values) {
  const std::size_t n = values.size();
  if (n < 2 || std::ranges::any_of(values, [](double value) { return !(value > 0.0); })) return 0.0;
  double trend = 0.0;
  std::vector<double> slopes;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double difference = std::log(values[j] / values[i]);
      trend += difference > 0.0 ? 1.0 : difference < 0.0 ? -1.0 : 0.0;
      slopes.push_back(difference / static_cast<double>(j - i));
    }
  }
  const auto count = static_cast<double>(n);
  const double variance = count * (count - 1.0) * (2.0 * count + 5.0) / 18.0;
  if (std::abs(trend) - 1.0 <= significant * std::sqrt(variance)) return 0.0;
  return std::expm1(median(std::move(slopes)) * (count - 1.0));
}

TwoGroups split_in_two(std::vector<double> values) {
  if (values.size() < least_steps_for_groups) return {};
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double variance = 0.0;
  for (const double value : values) variance += (value - mean) * (value - mean);
  variance /= n;

  TwoGroups best;
  double most = 0.0;
  double below = 0.0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    below += values[i - 1];
    const auto count = static_cast<double>(i);
    const double low = below / count;
    const double high = (mean * n - below) / (n - count);
    const double between = count / n * (n - count) / n * (high - low) * (high - low);
    if (between <= most) continue;
    most = between;
    best = {.low = low, .high = high, .high_share = (n - count) / n};
  }
  best.found = variance > 0.0 && most > explained_by_two_groups * variance &&
               std::min(best.high_share, 1.0 - best.high_share) >= least_group;
  return best;
}

Steadiness judge(const measure::RunSamples& run) {
  Steadiness steadiness;
  const Evidence evidence = gather(run);
  if (evidence.rates.empty()) {
    steadiness.reasons.push_back(run.failure.empty() ? "no round was measured: let it run longer"
                                                     : "no round was measured: it failed: " + run.failure);
  } else {
    judge_drift(evidence, steadiness.reasons);
    judge_spread(evidence, steadiness.reasons);
    judge_noise(run.noise, evidence.seconds, steadiness.reasons);
    judge_devices(run.noise.devices, steadiness.reasons);
    judge_groups(evidence, steadiness.reasons);
  }
  steadiness.stable = steadiness.reasons.empty();
  return steadiness;
}

}  // namespace dtrain::stats
