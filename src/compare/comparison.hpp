#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "compare/same_work.hpp"
#include "report/result.hpp"
#include "stats/doubt.hpp"
#include "stats/gate.hpp"

namespace dtrain::compare {

// One side: every result is the program run once.
struct Side {
  std::string name;  // as the user called it
  std::vector<report::Result> results;
  std::vector<std::string> files{};      // that they were read from, where they were
  std::vector<std::string> passed_by{};  // JSON files in the folder that are neither results nor other output
};

struct Config {
  stats::GateConfig gate;
  std::vector<std::string> metrics{"images_per_second"};
  double between_runs = 0.01;  // see stats::unpaired_evidence
  int looks = 1;               // that were planned at this evidence while it grew
  bool paired = false;         // results[i] of both sides were measured one after the other
  bool force = false;          // judge unequal work, too, and say so
  bool deliberate = false;     // options differ on purpose: listed, not refused
};

struct Values {
  double median = 0.0;
  std::size_t rounds = 0;
  std::size_t runs = 0;
};

// The answer about one configuration and metric.
struct Finding {
  std::string configuration;
  std::string metric;
  std::string unit;
  bool more_is_better = true;
  Values base;  // as measured, without normalisation
  Values next;
  double change = 0.0;  // of the metric itself, NEW / BASE - 1, with its interval; normalised
  double low = 0.0;
  double high = 0.0;
  double raw_change = 0.0;      // of the medians, as measured
  bool normalised = false;      // the machine's own speed was taken out, round by round
  double machine_change = 0.0;  // of that speed, new / base - 1, where it was
  stats::Judgement judgement;
  std::vector<stats::Doubt> doubts;
  std::string reason;  // why nothing can be told, nothing was judged, or what was judged in its place
  std::vector<std::string> arithmetic;
};

enum class Outcome { pass, regression, cannot_tell, cannot_compare };
std::string name(Outcome outcome);

struct Comparison {
  Side base;  // results without their samples: what they are, not what they measured
  Side next;
  Config config;
  std::vector<Difference> differences;
  bool forced = false;               // work differs and was compared all the same
  std::vector<std::string> missing;  // configurations that only the base has
  std::vector<std::string> added;    // that only the new side has; not judged
  std::vector<Finding> findings;
  std::vector<std::string> notes;
  Outcome outcome = Outcome::cannot_compare;
  std::string headline;  // one sentence
};

inline constexpr std::size_t least_rounds = 3;  // a side, of one configuration

// First whether both sides did the same work on the same machine, then each configuration by each metric.
// Incomplete or failed runs never pass. Usage error for an unknown metric.
Comparison compare(Side base, Side next, const Config& config);

// 0 pass, 1 regression, 6 cannot tell or cannot compare.
ExitCode exit_code(const Comparison& comparison);

// Results of one side: a result file; a folder that holds result.json; else a folder whose result files, at
// any depth, are runs of one command. Data error where there is none, or one that cannot be read.
Side read_side(const std::string& path);

}  // namespace dtrain::compare
