#include "report/hardware.hpp"

#include "base/text.hpp"
#include "report/findings.hpp"
#include "report/format.hpp"

namespace dtrain::report {

namespace {

// Work against the devices' peaks.
std::string roofline(const Result& result) {
  std::size_t index = 0;
  const auto* run = largest_measured(result, index);
  if (run == nullptr) return {};
  const auto& s = summary_of(result, index);
  std::vector<std::string> parts;
  if (s.peak_share && result.model.training_flops_per_image > 0.0) {
    parts.push_back(fmt::format("{}/s of the model, {} of the {} peak", flops(s.model_flops_per_second),
                                percent(*s.peak_share * 100), config::name(result.options.precision)));
  }
  if (s.bandwidth_share && result.model.training_bytes_per_image > 0.0) {
    parts.push_back(fmt::format("at least {:.3g} GB/s of memory traffic, {} of the bandwidth",
                                s.model_bytes_per_second / 1e9, percent(*s.bandwidth_share * 100)));
  }
  return parts.empty() ? std::string() : fmt::format("{} at {}", join(parts, "; "), run->plan.id);
}

// Of a GPU: a CPU replica has no memory of its own to hold.
std::string replica_memory(const Result& result) {
  if (result.device == "cpu") return {};
  const measure::RunSamples* most = nullptr;
  for (const auto& run : result.samples.runs) {
    if (most == nullptr || run.replica_peak_bytes > most->replica_peak_bytes) most = &run;
  }
  if (most == nullptr || most->replica_peak_bytes == 0) return {};
  return fmt::format("{} asked for, {} held from the device at most ({})",
                     bytes(static_cast<double>(most->replica_bytes)),
                     bytes(static_cast<double>(most->replica_peak_bytes)), most->plan.id);
}

// Clocks and heat while measuring.
std::string conditions(const Result& result) {
  std::size_t index = 0;
  const auto* run = largest_measured(result, index);
  if (run == nullptr) return {};
  std::vector<std::string> parts;
  for (const auto& device : run->noise.devices) {
    std::vector<std::string> facts;
    if (device.clock_mhz > 0.0) {
      facts.push_back(fmt::format("{:.0f} of {:.0f} MHz", device.clock_mhz, device.highest_clock_mhz));
    }
    if (device.celsius > 0.0) facts.push_back(fmt::format("{:.0f} °C", device.celsius));
    if (device.watts > 0.0)
      facts.push_back(fmt::format("{:.0f} of {:.0f} W", device.watts, device.watts_limit));
    if (!facts.empty()) parts.push_back(fmt::format("GPU {} {}", device.device, join(facts, ", ")));
  }
  return join(parts, "; ");
}

}  // namespace

std::vector<Fact> hardware_facts(const Result& result) {
  std::vector<Fact> facts;
  const auto add = [&](const char* label, std::string text) {
    if (!text.empty()) facts.push_back({label, std::move(text)});
  };
  add("roofline", roofline(result));
  add("replica", replica_memory(result));
  add("GPUs", conditions(result));
  return facts;
}

}  // namespace dtrain::report
