#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/result.hpp"

namespace dtrain::predict {

// Where N replicas sit.
struct Placement {
  int replicas = 1;
  int workers = 1;  // processes
  int hosts = 1;

  int per_worker() const { return (replicas + workers - 1) / workers; }
  int per_host() const { return (replicas + hosts - 1) / hosts; }
};

// A step by what its time goes into; seconds, mean over ranks, of the last rank in sum.
struct Parts {
  double computation = 0.0;    // input, forward, backward, update, and what no stamp covers
  double backward = 0.0;       // of it: what collectives may hide behind
  double stragglers = 0.0;     // until the last rank has come
  double communication = 0.0;  // exposed
  double step() const { return computation + stragglers + communication; }
};

// One measured N.
struct Point {
  std::string run;
  Placement placement;
  bool simulated = false;
  double images = 0.0;          // a step, of all replicas
  double replica_images = 0.0;  // a step, of the replica with most
  std::vector<Parts> rounds;
};

struct Measured {
  std::vector<Point> points;  // ascending in N, each N once
  // Runs that were not used, each with the reason.
  std::vector<std::string> left_out;
  // Step times of one rank alone / their round's mean: what N ranks wait for each other is drawn from these.
  std::vector<double> noise;
  bool arrivals_measured = true;      // else stragglers are part of communication
  std::vector<std::string> unsteady;  // runs that stats::judge does not trust
  int rounds = 0;                     // fewest of a point
};

// The runs of the strategy that was asked for, without exact, failed and empty ones; the plain loop stands in
// for N = 1 where the strategy was not measured there. Data error where figures are not finite or contradict
// themselves, which names `file`.
Measured take_measured(const report::Result& result, const std::string& file = {});

// The parts of a point's median step: medians of the chosen rounds, scaled so that they add up to the median
// step. `chosen` holds numbers in [0, 1), one a round; empty = each round once.
Parts typical(const Point& point, const std::vector<double>& chosen = {});

}  // namespace dtrain::predict
