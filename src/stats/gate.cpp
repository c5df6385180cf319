#include "stats/gate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dtrain::stats {

namespace {

// What 80 % power needs beside the critical value of 95 %, in units of it: 0.84 / 1.96.
constexpr double power_of_half = 0.43;

double share(double log_ratio) { return std::expm1(log_ratio); }

// The logarithm of a rate that is lower by `lost`.
double log_of_loss(double lost) { return lost < 1.0 ? std::log1p(-lost) : -1e300; }

// A loss is called worse for sure where it is beyond the strictest of Holm's levels, that of one question
// among all.
Judgement measure(const Question& question, const GateConfig& config, double confidence,
                  std::size_t questions) {
  const Evidence& evidence = *question.evidence;
  Judgement judgement;
  judgement.change = share(evidence.estimate());
  const Bounds shown = evidence.interval(confidence);
  judgement.low = share(shown.low + log_of_loss(question.may_hide));
  judgement.high = share(shown.high - log_of_loss(question.may_feign));
  const double shown_loss = config.limit == Limit::bound ? config.max_regress : 0.0;
  const double limit = log_of_loss(shown_loss) + log_of_loss(question.may_feign);
  judgement.p_worse = evidence.p_below(limit);
  const Bounds strictest = evidence.interval(1.0 - (1.0 - confidence) / static_cast<double>(questions));
  const double needed =
      0.5 * (strictest.high - strictest.low) + power_of_half * 0.5 * (shown.high - shown.low);
  if (std::isfinite(needed)) {
    const double found = -share(limit - needed);
    judgement.least_found = std::max(found, config.max_regress);
  }
  return judgement;
}

// Holm's step-down: the k-th smallest of m is multiplied by m - k, and none comes before a smaller one.
void adjust(std::vector<Judgement>& judgements) {
  std::vector<std::size_t> order(judgements.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return judgements[a].p_worse < judgements[b].p_worse;
  });
  double before = 0.0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    Judgement& judgement = judgements[order[k]];
    before = std::max(before, std::min(1.0, judgement.p_worse * static_cast<double>(order.size() - k)));
    judgement.p_adjusted = before;
  }
}

}  // namespace

std::string name(Verdict verdict) {
  switch (verdict) {
    case Verdict::better:
      return "better";
    case Verdict::same:
      return "same";
    case Verdict::worse:
      return "worse";
    case Verdict::cannot_tell:
      return "cannot tell";
  }
  return "";
}

std::vector<Judgement> judge(const std::vector<Question>& questions, const GateConfig& config) {
  const double error = (1.0 - config.confidence) * config.error_share;
  std::vector<Judgement> judgements;
  for (const auto& question : questions)
    judgements.push_back(measure(question, config, 1.0 - error, questions.size()));
  adjust(judgements);
  for (auto& judgement : judgements) {
    const bool large = config.limit == Limit::bound || judgement.change < -config.max_regress;
    if (judgement.p_adjusted < 0.5 * error && large) {
      judgement.verdict = Verdict::worse;
    } else if (judgement.low >= -config.max_regress) {
      judgement.verdict = judgement.low > 0.0 ? Verdict::better : Verdict::same;
    }
  }
  return judgements;
}

}  // namespace dtrain::stats
