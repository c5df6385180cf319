#include "cli/tune_log.hpp"

#include "report/json_text.hpp"

namespace dtrain::cli {

namespace {

using report::Json;

Json node_of(const tune::Standing& standing) {
  const bool measured = !standing.rates.empty() && standing.failure.empty();
  Json node;
  node["candidate"] = standing.candidate;
  node["images_per_second"] = standing.rates;
  node["gain"] = measured ? Json(standing.gain) : Json(nullptr);
  node["kept"] = standing.kept;
  node["failure"] = standing.failure.empty() ? Json(nullptr) : Json(standing.failure);
  return node;
}

Json node_of(const tune::Rung& rung) {
  Json node;
  node["rounds"] = rung.rounds;
  node["cut_short"] = rung.cut_short;
  node["standings"] = Json::array();
  for (const auto& standing : rung.standings) node["standings"].push_back(node_of(standing));
  return node;
}

Json pairs_of(const tune::Outcome& outcome) {
  Json node;
  node["rival"] = outcome.rival;
  node["default_images_per_second"] = Json::array();
  node["rival_images_per_second"] = Json::array();
  for (const auto& pair : outcome.pairs) {
    node["default_images_per_second"].push_back(pair.base);
    node["rival_images_per_second"].push_back(pair.rival);
  }
  return node;
}

Json gain_of(const tune::Outcome& outcome) {
  if (outcome.pairs.empty()) return nullptr;
  return {{"median", outcome.gain.median}, {"low", outcome.gain.low}, {"high", outcome.gain.high}};
}

}  // namespace

std::string tuning_log(const TuneRequest& request, const std::vector<TuneCandidate>& candidates,
                       const tune::Outcome& outcome) {
  Json node;
  node["schema"] = "dtrain.tuning/1";
  node["command"] = request.command;
  node["run"] = request.run;
  node["budget_seconds"] = request.budget_seconds;
  node["seconds"] = outcome.seconds;
  node["stretches"] = outcome.stretches;
  node["stretch_seconds"] = outcome.stretch_seconds;
  node["seed"] = request.seed;
  node["held"] = request.held;
  node["candidates"] = Json::array();
  for (int i = 0; i < std::ssize(candidates); ++i) {
    node["candidates"].push_back({{"candidate", i},
                                  {"flags", candidates[static_cast<std::size_t>(i)].flags},
                                  {"entered", i <= outcome.schedule.candidates}});
  }
  node["rungs"] = Json::array();
  for (const auto& rung : outcome.rungs) node["rungs"].push_back(node_of(rung));
  node["final"] = pairs_of(outcome);
  node["gain_of_rival"] = gain_of(outcome);
  node["winner"] = outcome.winner;
  node["winner_flags"] = candidates[static_cast<std::size_t>(outcome.winner)].flags;
  node["why"] = outcome.why;
  return report::to_text(node);
}

}  // namespace dtrain::cli
