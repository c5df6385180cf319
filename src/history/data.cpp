#include <cmath>

#include "base/text.hpp"
#include "history/data.hpp"
#include "history/writers.hpp"
#include "report/csv_text.hpp"
#include "report/json_text.hpp"

namespace dtrain::history {

namespace {

using report::Json;
using Interval = std::optional<stats::Interval>;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void put_interval(Json& node, const char* key, const Interval& interval, const char* why_none) {
  if (!interval) {
    node[key] = nullptr;
    node[std::string(key) + "_reason"] = why_none;
    return;
  }
  node[key] = {
      {"median", number(interval->median)}, {"low", number(interval->low)}, {"high", number(interval->high)}};
}

Json point_node(const Point& point) {
  Json node = {
      {"file", point.file}, {"created", point.created}, {"commit", point.commit}, {"run", point.run}};
  put_interval(node, "images_per_second", point.images_per_second, "");
  put_interval(node, "images_per_second_normalised", point.normalised,
               "not every result of the series was calibrated, or it ran on a GPU");
  put_interval(node, "efficiency", point.efficiency, "a base, simulated, or without a base beside it");
  node["stable"] = point.stable;
  return node;
}

Json change_node(const Series& series, const Change& change) {
  return {{"first_point", change.first},
          {"after_commit", series.points[change.first - 1].commit},
          {"before_commit", series.points[change.first].commit},
          {"after_created", series.points[change.first - 1].created},
          {"before_created", series.points[change.first].created},
          {"percent", number(change.share * 100.0)},
          {"percent_low", number(change.low * 100.0)},
          {"percent_high", number(change.high * 100.0)},
          {"percent_as_measured", number(change.raw_share * 100.0)},
          {"percent_machine", change.machine_share ? number(*change.machine_share * 100.0) : Json(nullptr)}};
}

Json series_node(const Series& series) {
  Json work = Json::object();
  for (const auto& trait : series.work) work[trait.name] = trait.value;
  Json node = {{"tool", series.tool}, {"label", series.label}, {"work", work}};
  const bool normalised = series.reference_calibration_seconds > 0.0;
  node["reference_calibration_seconds"] =
      normalised ? Json(series.reference_calibration_seconds) : Json(nullptr);
  node["points"] = Json::array();
  for (const auto& point : series.points) node["points"].push_back(point_node(point));
  node["changes"] = Json::array();
  for (const auto& change : series.changes) node["changes"].push_back(change_node(series, change));
  node["changes_of"] = series.judged_normalised ? "images_per_second_normalised" : "images_per_second";
  node["remark"] = series.remark;
  return node;
}

std::vector<std::string> interval_cells(const Interval& interval) {
  if (!interval) return {"", "", ""};
  return {report::csv_number(interval->median), report::csv_number(interval->low),
          report::csv_number(interval->high)};
}

std::string csv_row(const Machine& machine, const Series& series, std::size_t index) {
  const Point& point = series.points[index];
  std::vector<std::string> cells = {report::csv_field(machine.key),   report::csv_field(series.tool),
                                    report::csv_field(series.label),  value_of(series.work, "replicas"),
                                    report::csv_field(point.created), report::csv_field(point.commit)};
  for (const auto& interval : {Interval(point.images_per_second), point.normalised, point.efficiency}) {
    for (auto& cell : interval_cells(interval)) cells.push_back(std::move(cell));
  }
  cells.push_back(point.stable ? "true" : "false");
  double percent = NAN;
  for (const auto& change : series.changes) {
    if (change.first == index) percent = change.share * 100.0;
  }
  cells.push_back(report::csv_number(percent));
  cells.push_back(report::csv_field(point.file));
  return join(cells, ",") + "\r\n";
}

}  // namespace

Json to_node(const History& history) {
  Json root = {{"schema", "dtrain.history/1"}, {"results", history.results}, {"machines", Json::array()}};
  for (const auto& machine : history.machines) {
    Json node = {{"key", machine.key}, {"cpu", machine.cpu}, {"devices", machine.devices}};
    node["series"] = Json::array();
    for (const auto& series : machine.series) node["series"].push_back(series_node(series));
    root["machines"].push_back(node);
  }
  root["refused"] = history.refused;
  root["notes"] = history.notes;
  return root;
}

std::string to_json(const History& history) { return report::to_text(to_node(history)); }

std::string to_csv(const History& history) {
  std::string out =
      "machine_key,tool,configuration,replicas,created,commit,images_per_second,images_per_second_low,"
      "images_per_second_high,normalised,normalised_low,normalised_high,efficiency,efficiency_low,"
      "efficiency_high,stable,change_percent,file\r\n";
  for (const auto& machine : history.machines) {
    for (const auto& series : machine.series) {
      for (std::size_t i = 0; i < series.points.size(); ++i) out += csv_row(machine, series, i);
    }
  }
  return out;
}

}  // namespace dtrain::history
