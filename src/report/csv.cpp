#include <numeric>

#include "base/text.hpp"
#include "report/csv_text.hpp"
#include "report/writers.hpp"

namespace dtrain::report {

namespace {

const char* truth(bool value) { return value ? "true" : "false"; }

std::string base(config::RunPlan::Base base) {
  if (base == config::RunPlan::Base::plain) return "plain";
  return base == config::RunPlan::Base::strategy ? "strategy" : "";
}

std::string phase(const measure::RoundSample& round, double measure::RankPhases::*part) {
  if (round.ranks.empty()) return {};
  double sum = 0.0;
  for (const auto& rank : round.ranks) sum += rank.*part;
  return csv_number(sum / static_cast<double>(round.ranks.size()) * 1e3);
}

constexpr std::pair<const char*, double measure::RankPhases::*> phases[] = {
    {"input_ms", &measure::RankPhases::input},
    {"forward_ms", &measure::RankPhases::forward},
    {"backward_ms", &measure::RankPhases::backward},
    {"communication_ms", &measure::RankPhases::communication},
    {"straggler_wait_ms", &measure::RankPhases::straggler_wait},
    {"update_ms", &measure::RankPhases::update},
    {"host_ms", &measure::RankPhases::host}};

std::string row(const measure::RunSamples& run, std::size_t index, bool stable) {
  const auto& round = run.rounds[index];
  std::vector<std::string> cells = {csv_field(run.plan.id),
                                    csv_field(run.plan.strategy),
                                    base(run.plan.base),
                                    std::to_string(run.plan.replicas),
                                    truth(run.plan.simulated),
                                    truth(stable),
                                    std::to_string(run.plan.global_batch),
                                    std::to_string(index + 1),
                                    std::to_string(round.images),
                                    std::to_string(round.steps),
                                    std::to_string(round.warmup_steps),
                                    csv_number(round.seconds),
                                    csv_number(static_cast<double>(round.images) / round.seconds),
                                    csv_number(round.calibration_seconds)};
  for (const auto& [name, part] : phases) cells.push_back(phase(round, part));
  return join(cells, ",");
}

}  // namespace

std::string to_csv(const Result& result) {
  std::string out =
      "run,strategy,base,replicas,simulated,stable,global_batch_images,round,images,steps,warmup_steps,"
      "seconds,"
      "images_per_second,calibration_seconds";
  for (const auto& [name, part] : phases) out += fmt::format(",{}", name);
  out += "\r\n";
  for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
    const auto& run = result.samples.runs[i];
    for (std::size_t round = 0; round < run.rounds.size(); ++round) {
      out += row(run, round, summary_of(result, i).steadiness.stable) + "\r\n";
    }
  }
  return out;
}

}  // namespace dtrain::report
