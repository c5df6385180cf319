#pragma once

#include <optional>
#include <vector>

#include "predict/computation.hpp"

namespace dtrain::predict {

// Alpha and beta of a law's two levels, from all-reduce sweeps where there are some, else from the runs' own
// exposed communication. Where buckets hide behind backward, what is exposed is what the last ones take that
// follow each other without a pause, less what was left of backward then; which ones these are is found in
// turns with alpha and beta.
//
// From sweeps, sizes near those of the buckets count most. What runs then show above or below the sweeps'
// times (cold caches, cores that are busy) is a factor for all N, `calibration`.
class Communication {
 public:
  Communication(const Setup& setup, const Law& law, const std::vector<Observation>& observations);

  // As if there were another link among workers.
  void use_link(const Link& link);

  // Exposed seconds of a step, mean over steps where not every one synchronizes.
  double exposed(const Setup& setup, const Exchange& exchange, const Placement& placement,
                 double backward) const;
  double all_reduce_seconds(const Setup& setup, const Placement& placement, double bytes,
                            double sent_share) const;

  bool determined() const {
    return determined_;
  }  // something above 0 was seen of every level that was measured
  const Columns& unknowns() const { return unknowns_; }
  const Law& law() const { return law_; }
  std::optional<double> calibration() const { return calibration_; }  // none without sweeps
  double sweep_misfit() const {
    return sweep_misfit_;
  }  // root mean square of relative errors near the buckets' size

 private:
  std::vector<Equation> sweep_equations(const Setup& setup) const;
  void fit_runs(const Setup& setup, const std::vector<Observation>& observations);
  Equation equation_of(const Setup& setup, const Observation& observation, std::size_t first_bucket) const;
  std::vector<double> bucket_seconds(const Setup& setup, const Exchange& exchange,
                                     const Placement& placement) const;
  void calibrate(const Setup& setup, const std::vector<Observation>& observations);

  Law law_;
  Columns unknowns_{};
  std::optional<double> calibration_;
  double sweep_misfit_ = 0.0;
  bool determined_ = true;
};

}  // namespace dtrain::predict
