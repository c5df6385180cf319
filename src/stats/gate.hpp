#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stats/evidence.hpp"

namespace dtrain::stats {

enum class Verdict { better, same, worse, cannot_tell };
std::string name(Verdict verdict);  // better, same, worse, cannot tell

// What the limit is to a loss that is called worse.
enum class Limit {
  bound,          // the loss has to be larger than it, beyond doubt
  minimum_effect  // some loss has to be beyond doubt, and what was measured larger than the limit
};

struct GateConfig {
  double max_regress = 0.05;  // share of a rate that may be lost
  Limit limit = Limit::bound;
  double confidence = 0.95;  // of the intervals
  double error_share =
      1.0;  // of the chance of error, where evidence that goes on growing is judged several times
};

// One configuration and metric.
struct Question {
  const Evidence* evidence = nullptr;
  double may_feign = 0.0;  // share that the new side may have lost to what made the measurement unsteady
  double may_hide = 0.0;   // share that the base may have lost to it, so that a loss does not show
};

// Changes are shares of the rate, NEW / BASE - 1: below 0 is worse.
struct Judgement {
  Verdict verdict = Verdict::cannot_tell;
  double change = 0.0;
  double low = 0.0;  // of the interval at GateConfig::confidence, widened by what it may feign and hide; may
                     // be infinite
  double high = 0.0;
  double p_worse =
      1.0;  // of the evidence if no more than max_regress (nothing, with minimum_effect) was lost
  double p_adjusted = 1.0;        // for the number of questions
  double least_found = infinite;  // smallest loss that is called worse in 8 of 10 measurements like this one
  static constexpr double infinite = 1e300;
};

// worse: the loss is beyond max_regress as `limit` says, with Holm's correction (1979) for the number of
// questions, so that
//        more configurations do not mean more false alarms;
// better, same: the interval lies wholly on the good side of -max_regress, better if above 0, too. To pass,
//        each configuration has to show it, which needs no correction;
// cannot tell: neither.
// Whoever looks at growing evidence several times, and may stop at any, divides the chance of error among the
// looks (Bonferroni): shares that add up to one.
std::vector<Judgement> judge(const std::vector<Question>& questions, const GateConfig& config);

}  // namespace dtrain::stats
