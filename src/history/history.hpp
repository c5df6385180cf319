#pragma once

#include <optional>
#include <string>
#include <vector>

#include "history/collect.hpp"
#include "history/work.hpp"
#include "stats/interval.hpp"

namespace dtrain::history {

// One run of one result.
struct Point {
  std::string file;
  std::string created;  // UTC, ISO 8601
  std::string commit;   // of dtrain; of another tool, its version
  std::string run;      // the run's id
  stats::Interval images_per_second;
  // The same at the reference speed of the machine: x calibration kernel's time / the series' median time.
  std::optional<stats::Interval> normalised;
  std::optional<stats::Interval> efficiency;  // none for bases and simulated runs
  double calibration_seconds = 0.0;           // median over rounds; 0 = not measured in all
  double first_loss = 0.0;                    // not finite: not recorded
  double own_variance = 0.0;                  // of the median rate's logarithm, by the rounds
  bool stable = true;
};

// Rates changed between points first - 1 and first. Shares of the rate: 0.1 is 10 % more.
struct Change {
  std::size_t first = 0;
  double share = 0.0;
  double low = 0.0;  // 95 % interval
  double high = 0.0;
  double raw_share = 0.0;               // of the rates as measured
  std::optional<double> machine_share;  // of the machine's own speed, where all results were calibrated
};

// Results of equal work by one tool.
struct Series {
  std::string tool;
  std::string label;  // run's id, and what tells it from other series on the machine
  Work work;
  std::vector<Point> points;  // oldest first
  double reference_calibration_seconds = 0.0;
  bool judged_normalised = false;  // changes are of normalised rates, else of rates as measured
  std::vector<Change> changes;
  std::string remark;  // why there are no changes, and whether the series drifts
};

struct Machine {
  std::string key;
  std::string cpu;
  std::vector<std::string> devices;  // accelerators
  std::vector<Series> series;  // ours in the order of their runs; another tool's behind ours of equal work
};

struct History {
  std::vector<Machine> machines;     // the one measured last first
  std::vector<std::string> refused;  // other tools' runs whose work differs, with what differs
  std::vector<std::string> notes;    // what was left out, and why
  std::size_t results = 0;
};

// Figures are worked out again from the rounds, so that old results need no new run. Incomplete results,
// failed runs and files that are no results are left out and noted.
History make_history(Collection collection);

}  // namespace dtrain::history
