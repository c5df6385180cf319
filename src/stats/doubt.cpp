#include "stats/doubt.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "stats/steadiness.hpp"

namespace dtrain::stats {

namespace {

double measured_seconds(const measure::RunSamples& run) {
  double seconds = 0.0;
  for (const auto& round : run.rounds) seconds += round.seconds;
  return seconds;
}

void doubt_drift(std::span<const double> logs, std::vector<Doubt>& out) {
  std::vector<double> rates;
  for (const double log : logs) rates.push_back(std::exp(log - logs.front()));
  const double drift = significant_drift(rates);
  if (std::abs(drift) <= drift_limit) return;
  out.push_back(
      {.share = -std::expm1(-0.5 * std::abs(std::log1p(drift))),  // half of it, as a factor
       .only_slows = false,
       .what = fmt::format("its rate drifts by {:+.1f} % from the first to the last round", 100.0 * drift)});
}

void doubt_load(const measure::RunSamples& run, double seconds, double cores, std::vector<Doubt>& out) {
  if (seconds < least_seconds_for_load) return;
  if (run.noise.foreign_load > foreign_load_limit) {
    out.push_back({.share = std::min(1.0, run.noise.foreign_load / cores),
                   .what = fmt::format("other processes kept {:.2f} cores busy", run.noise.foreign_load)});
  }
  if (run.noise.stolen > stolen_limit) {
    out.push_back({.share = std::min(1.0, run.noise.stolen / cores),
                   .what = fmt::format("the hypervisor took {:.2f} cores away", run.noise.stolen)});
  }
  const double throttled = run.noise.throttled_seconds / seconds;
  if (throttled > throttled_limit) {
    out.push_back(
        {.share = std::min(1.0, throttled),
         .what = fmt::format("the CPU quota stopped it for {:.1f} % of the time", 100.0 * throttled)});
  }
}

void doubt_devices(const measure::RunSamples& run, std::vector<Doubt>& out) {
  for (const auto& device : run.noise.devices) {
    if (device.other_processes > 0) {
      out.push_back({.share = 1.0, .what = fmt::format("other processes used GPU {}", device.device)});
    }
    const double clock = device.highest_clock_mhz > 0.0 ? device.clock_mhz / device.highest_clock_mhz : 1.0;
    if (!device.slowed_by.empty() && clock < slow_clock_limit) {
      out.push_back(
          {.share = 1.0 - clock,
           .what = fmt::format("GPU {} was slowed by {}", device.device, join(device.slowed_by, " and "))});
    }
  }
}

}  // namespace

std::vector<Doubt> doubts(const measure::RunSamples& run, std::span<const double> logs, int machine_cores) {
  std::vector<Doubt> out;
  if (!logs.empty()) doubt_drift(logs, out);
  doubt_load(run, measured_seconds(run), std::max(machine_cores, 1), out);
  doubt_devices(run, out);
  return out;
}

}  // namespace dtrain::stats
