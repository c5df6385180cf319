#pragma once

#include <optional>
#include <string>
#include <vector>

#include "predict/setup.hpp"

namespace dtrain::predict {

// A value and where a benchmark of as many rounds is expected to find it.
struct Range {
  double value = 0.0;
  double low = 0.0;
  double high = 0.0;
};

enum class Distance { measured, between, otherwise, extrapolated, far };

// "at a measured N", "between measured N", "no larger N, but otherwise than measured" (another link or
// model), "extrapolated", "far extrapolated: 8 times the largest measured N".
std::string words(Distance distance, int replicas, int largest);

// What is said of one N.
struct Estimate {
  int replicas = 1;
  Placement placement;
  Distance distance = Distance::extrapolated;
  bool shares = false;  // replicas would share places: never called scaling
  Parts parts;          // seconds
  double ideal = 0.0;   // seconds a step would take if N replicas cost nothing
  Range step;           // seconds
  Range images_per_second;
  Range efficiency;   // images/s / (N x images/s at N = 1)
  std::string limit;  // the part that costs most; empty where none takes a tenth
  // What was measured at this N, which the model need not hit; none elsewhere.
  std::optional<double> measured_step;  // seconds
  std::optional<double> measured_images_per_second;
};

// A measured N, and what the others say of it.
struct Check {
  int replicas = 1;
  std::string run;
  bool simulated = false;
  double images_per_second = 0.0;
  double step = 0.0;       // seconds, measured
  double predicted = 0.0;  // seconds, from the other N
  double error = 0.0;      // predicted / measured - 1
};

// From which N on a part takes a tenth of the step, and more than the useful computation.
struct Limit {
  std::string part;
  std::optional<int> tenth;
  std::optional<int> overtakes;
};

struct Gain {
  std::string change;  // "--bucket-mb 4"
  Range factor;        // of images/s; 1 = gains nothing
  std::string remark;  // what the model does not see
};

struct Prediction {
  static constexpr const char* schema = "dtrain.prediction/1";

  std::string refusal;  // why there is none, and what to measure; all below but `source` is then empty
  struct Source {
    std::string file;
    std::string created;
    std::string model;
    std::string measured_model;
    std::string strategy;
    std::string device;
    std::string scaling;
    double images_of_replica = 0.0;  // a step, at the largest measured N
    int rounds = 0;                  // fewest of a run
  } source;
  std::vector<Check> checks;        // by measured N
  std::vector<Estimate> estimates;  // by N asked for
  std::vector<Estimate> curve;      // over N, for the chart: measured and asked N among them
  struct Collective {
    std::string law;
    std::string why;                  // how it was chosen
    std::vector<std::string> others;  // that fit as well: their predictions are within the interval
    double alpha = 0.0, beta = 0.0;   // among workers: seconds a message, seconds a byte
    double local_alpha = 0.0, local_beta = 0.0;
    bool has_spanning = false, has_local = false;
    std::string from;  // what alpha and beta rest on
  } collective;
  std::vector<Limit> limits;  // in the order in which they come, the larger first at the same N
  int limits_up_to = 0;       // the largest N at which they were looked for
  std::string verdict;        // what limits first, in one sentence
  std::vector<Gain> gains;    // at the largest N asked for, the largest first
  std::vector<std::string> notes;
};

// Pure: reads nothing and prints nothing. Usage and data errors as make_setup and take_measured have them;
// data error for a result whose measurement did not run to its end. What cannot be said is a refusal, not an
// error.
Prediction predict(const report::Result& result, const Request& request);

}  // namespace dtrain::predict
