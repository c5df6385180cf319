#include "predict/writers.hpp"
#include "report/json_text.hpp"

namespace dtrain::predict {

namespace {

using report::Json;

Json range_node(const Range& range) {
  return {{"value", range.value}, {"low", range.low}, {"high", range.high}};
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json estimate_node(const Estimate& e, int largest) {
  return {{"replicas", e.replicas},
          {"workers", e.placement.workers},
          {"hosts", e.placement.hosts},
          {"how", words(e.distance, e.replicas, largest)},
          {"extrapolated", e.distance == Distance::extrapolated || e.distance == Distance::far},
          {"simulated", e.shares},
          {"images_per_second", range_node(e.images_per_second)},
          {"step_seconds", range_node(e.step)},
          {"efficiency", e.shares ? Json(nullptr) : range_node(e.efficiency)},
          {"measured_images_per_second", or_null(e.measured_images_per_second)},
          {"measured_step_seconds", or_null(e.measured_step)},
          {"ideal_seconds", e.ideal},
          {"parts",
           {{"computation_seconds", e.parts.computation},
            {"straggler_seconds", e.parts.stragglers},
            {"communication_seconds", e.parts.communication}}},
          {"limit", e.limit.empty() ? Json(nullptr) : Json(e.limit)}};
}

Json estimates_node(const std::vector<Estimate>& estimates, int largest) {
  Json array = Json::array();
  for (const auto& estimate : estimates) array.push_back(estimate_node(estimate, largest));
  return array;
}

Json checks_node(const std::vector<Check>& checks) {
  Json array = Json::array();
  for (const auto& c : checks) {
    array.push_back({{"replicas", c.replicas},
                     {"run", c.run},
                     {"simulated", c.simulated},
                     {"images_per_second", c.images_per_second},
                     {"step_seconds", c.step},
                     {"predicted_step_seconds", c.predicted},
                     {"error", c.error}});
  }
  return array;
}

Json collective_node(const Prediction::Collective& c) {
  const auto level = [](bool there, double alpha, double beta) -> Json {
    if (!there) return nullptr;
    return {{"alpha_seconds", alpha}, {"beta_seconds_per_byte", beta}};
  };
  return {{"law", c.law},
          {"why", c.why},
          {"others_that_fit", c.others},
          {"among_workers", level(c.has_spanning, c.alpha, c.beta)},
          {"within_worker", level(c.has_local, c.local_alpha, c.local_beta)},
          {"from", c.from}};
}

Json limits_node(const std::vector<Limit>& limits) {
  const auto n = [](const std::optional<int>& value) { return value ? Json(*value) : Json(nullptr); };
  Json array = Json::array();
  for (const auto& limit : limits) {
    array.push_back({{"part", limit.part},
                     {"tenth_of_step_from", n(limit.tenth)},
                     {"more_than_computation_from", n(limit.overtakes)}});
  }
  return array;
}

Json gains_node(const std::vector<Gain>& gains) {
  Json array = Json::array();
  for (const auto& gain : gains) {
    array.push_back({{"change", gain.change},
                     {"images_per_second_factor", range_node(gain.factor)},
                     {"remark", gain.remark}});
  }
  return array;
}

}  // namespace

std::string to_json(const Prediction& prediction) {
  const auto& s = prediction.source;
  const int largest = prediction.checks.empty() ? 1 : prediction.checks.back().replicas;
  Json root{{"schema", Prediction::schema},
            {"refusal", prediction.refusal.empty() ? Json(nullptr) : Json(prediction.refusal)},
            {"source",
             {{"result", s.file},
              {"created", s.created},
              {"model", s.model},
              {"measured_model", s.measured_model},
              {"strategy", s.strategy},
              {"device", s.device},
              {"scaling", s.scaling},
              {"rounds", s.rounds},
              {"images_of_replica", s.images_of_replica}}}};
  if (!prediction.refusal.empty()) return report::to_text(root);
  root["predictions"] = estimates_node(prediction.estimates, largest);
  root["measured"] = checks_node(prediction.checks);
  root["collective"] = collective_node(prediction.collective);
  root["limits"] = limits_node(prediction.limits);
  root["verdict"] = prediction.verdict;
  root["gains"] = gains_node(prediction.gains);
  root["notes"] = prediction.notes;
  root["curve"] = estimates_node(prediction.curve, largest);
  return report::to_text(root);
}

}  // namespace dtrain::predict
