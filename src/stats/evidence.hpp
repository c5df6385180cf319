#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtrain::stats {

struct Bounds {
  double low = 0.0;
  double high = 0.0;
};

// What was measured of a change, in natural logarithms of NEW / BASE: of a rate, so that below 0 is worse.
class Evidence {
 public:
  virtual ~Evidence() = default;
  virtual double estimate() const = 0;
  virtual Bounds interval(double confidence) const = 0;  // two-sided; infinite where there is too little
  // How likely evidence as strong as this is if the true value is at least (below), or at most (above) x.
  virtual double p_below(double x) const = 0;
  virtual double p_above(double x) const = 0;
  // The arithmetic, a line a step.
  virtual std::vector<std::string> explain() const = 0;
};

// Logarithms of one side's values: a list for each time that the program was run, an entry a round.
using RunLogs = std::vector<std::vector<double>>;

// Rounds of one process share its memory layout, its cores' neighbours and its hour: a second process would
// differ by more than rounds do. `between_runs` is the assumed standard deviation of that (0.01 = 1 %). It is
// not used where a side has at least three runs, because then it shows in their means, nor where two differ
// by more.
//
// Welch's test (1947) on means of logarithms, degrees of freedom after Satterthwaite (1946); what is assumed
// counts as known. Each side has at least one value.
std::unique_ptr<Evidence> unpaired_evidence(const RunLogs& base, const RunLogs& next, double between_runs);

// Differences of pairs that were measured one after the other. Wilcoxon's signed-rank test (1945) with its
// exact distribution, its interval from the Walsh averages (Hodges, Lehmann 1963): one wild pair costs
// little. Assumes that differences lie evenly around their median. At least one.
std::unique_ptr<Evidence> paired_evidence(std::vector<double> differences);

// Of values that do not vary by chance (bytes, counts).
std::unique_ptr<Evidence> exact_evidence(double log_ratio);

}  // namespace dtrain::stats
