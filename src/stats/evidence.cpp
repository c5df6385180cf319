#include "stats/evidence.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text.hpp"
#include "stats/interval.hpp"

namespace dtrain::stats {

namespace {

constexpr std::size_t runs_that_show_their_spread = 3;
constexpr double infinity = std::numeric_limits<double>::infinity();

double squares_around(std::span<const double> values, double middle) {
  double sum = 0.0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return sum;
}

// One side's logarithms: their mean, and how its rounds and its runs scatter.
struct SideMean {
  double mean = 0.0;
  double variance = 0.0;  // of the mean, from the scatter of rounds within their runs
  double degrees = 0.0;   // of freedom, of that
  double spread = 0.0;    // standard deviation of rounds within their runs
  double squares_of_runs = 0.0;
  std::size_t runs = 0;
  std::size_t rounds = 0;

  bool shows_runs() const { return runs >= runs_that_show_their_spread; }
  double count() const { return static_cast<double>(runs); }
};

SideMean measure_side(const RunLogs& runs) {
  SideMean side;
  side.runs = runs.size();
  std::vector<double> means;
  double within = 0.0;
  double inverse_rounds = 0.0;
  for (const auto& run : runs) {
    means.push_back(mean(run));
    within += squares_around(run, means.back());
    inverse_rounds += 1.0 / static_cast<double>(run.size());
    side.rounds += run.size();
  }
  side.mean = mean(means);
  side.squares_of_runs = squares_around(means, side.mean);
  side.degrees = static_cast<double>(side.rounds) - side.count();
  if (side.degrees <= 0.0) return side;
  side.spread = std::sqrt(within / side.degrees);
  side.variance = side.spread * side.spread * inverse_rounds / (side.count() * side.count());
  return side;
}

class Unpaired final : public Evidence {
 public:
  Unpaired(const RunLogs& base, const RunLogs& next, double between_runs)
      : between_runs_(between_runs), base_(measure_side(base)), next_(measure_side(next)) {
    const double expected =
        between_runs * between_runs + 0.5 * (base_.variance * base_.count() + next_.variance * next_.count());
    const bool more_than_assumed = variance_of_runs() > expected;
    runs_show_spread_ = base_.shows_runs() || next_.shows_runs() || more_than_assumed;
    if (runs_show_spread_) {
      take_spread_of_runs();
    } else {
      take_assumed_spread();
    }
  }

  double estimate() const override { return next_.mean - base_.mean; }

  Bounds interval(double confidence) const override {
    if (!known_) return {-infinity, infinity};
    const double t = boost::math::quantile(boost::math::students_t(degrees_), 0.5 + 0.5 * confidence);
    return {estimate() - t * error_, estimate() + t * error_};
  }

  double p_below(double x) const override { return tail((estimate() - x)); }
  double p_above(double x) const override { return tail((x - estimate())); }

  std::vector<std::string> explain() const override {
    std::vector<std::string> lines{describe("base", base_), describe("new", next_)};
    if (runs_show_spread_) {
      lines.push_back(
          fmt::format("between runs: a standard deviation of {:.2f} %, as the means of the runs show",
                      100.0 * between_runs_));
    } else {
      lines.push_back(
          fmt::format("between runs: a standard deviation of {:.2f} % is assumed, because neither side "
                      "holds {} runs, nor do their runs differ by more",
                      100.0 * between_runs_, runs_that_show_their_spread));
    }
    lines.push_back(
        fmt::format("difference of the means {:+.5f}, standard error {:.5f}, {:.1f} degrees of freedom",
                    estimate(), error_, degrees_));
    return lines;
  }

 private:
  static constexpr double most_degrees = 1e6;

  double variance_of_runs() const {
    double squares = 0.0;
    double degrees = 0.0;
    for (const SideMean* side : {&base_, &next_}) {
      squares += side->squares_of_runs;
      degrees += side->count() - 1.0;
    }
    return degrees > 0.0 ? squares / degrees : 0.0;
  }

  // One standard deviation for the runs of both sides. A side of few rounds may be known even less.
  void take_spread_of_runs() {
    const double variance = variance_of_runs();
    degrees_ = base_.count() + next_.count() - 2.0;
    between_runs_ = std::sqrt(variance);
    error_ = std::sqrt(std::max(variance / base_.count(), base_.variance) +
                       std::max(variance / next_.count(), next_.variance));
    known_ = true;
  }

  void take_assumed_spread() {
    const double assumed = between_runs_ * between_runs_ * (1.0 / base_.count() + 1.0 / next_.count());
    const double variance = base_.variance + next_.variance + assumed;
    error_ = std::sqrt(variance);
    known_ = base_.degrees > 0.0 && next_.degrees > 0.0;
    const double measured = known_ ? base_.variance * base_.variance / base_.degrees +
                                         next_.variance * next_.variance / next_.degrees
                                   : 0.0;
    degrees_ = measured > 0.0 ? std::min(variance * variance / measured, most_degrees) : most_degrees;
  }

  double tail(double distance) const {
    if (!known_) return 1.0;
    if (error_ == 0.0) return distance < 0.0 ? 0.0 : 1.0;
    return boost::math::cdf(boost::math::students_t(degrees_), distance / error_);
  }

  static std::string describe(const char* name, const SideMean& side) {
    return fmt::format("{}: {} rounds in {} run{}, mean of logarithms {:.5f}, standard deviation {:.5f}",
                       name, side.rounds, side.runs, side.runs == 1 ? "" : "s", side.mean, side.spread);
  }

  double between_runs_;  // standard deviation
  SideMean base_;
  SideMean next_;
  bool runs_show_spread_ = false;
  double error_ = 0.0;
  double degrees_ = 0.0;
  bool known_ = false;
};

// How likely each rank sum of n pairs is, if each rank has either sign with equal chance.
std::vector<double> rank_sum_distribution(std::size_t n) {
  std::vector<double> chances(n * (n + 1) / 2 + 1, 0.0);
  chances[0] = 1.0;
  std::size_t most = 0;
  for (std::size_t rank = 1; rank <= n; ++rank) {
    most += rank;
    for (std::size_t sum = most + 1; sum-- > 0;) {
      chances[sum] = 0.5 * (chances[sum] + (sum >= rank ? chances[sum - rank] : 0.0));
    }
  }
  return chances;
}

class Paired final : public Evidence {
 public:
  explicit Paired(std::vector<double> differences)
      : n_(differences.size()), chances_(rank_sum_distribution(differences.size())) {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = i; j < n_; ++j) averages_.push_back(0.5 * (differences[i] + differences[j]));
    }
    std::sort(averages_.begin(), averages_.end());
  }

  double estimate() const override {
    const std::size_t m = averages_.size();
    return 0.5 * (averages_[(m - 1) / 2] + averages_[m / 2]);
  }

  // Rank sums up to `cut` have less than the tail's chance; as many Walsh averages are left out at each end.
  Bounds interval(double confidence) const override {
    const double tail = 0.5 * (1.0 - confidence);
    double chance = 0.0;
    std::size_t cut = 0;
    while (cut < chances_.size() && chance + chances_[cut] <= tail) chance += chances_[cut++];
    if (cut == 0) return {-infinity, infinity};
    return {averages_[cut - 1], averages_[averages_.size() - cut]};
  }

  // The rank sum of differences above x is the number of Walsh averages above it; one at x counts as above.
  double p_below(double x) const override {
    return chance_of_at_most(averages_.end() - std::lower_bound(averages_.begin(), averages_.end(), x));
  }
  double p_above(double x) const override {
    return chance_of_at_most(std::upper_bound(averages_.begin(), averages_.end(), x) - averages_.begin());
  }

  std::vector<std::string> explain() const override {
    const Bounds bounds = interval(0.95);
    return {
        fmt::format("{} pairs: the median of all averages of two differences is {:+.5f}; signed ranks put it "
                    "between {:+.5f} and {:+.5f} with 95 %",
                    n_, estimate(), bounds.low, bounds.high)};
  }

 private:
  double chance_of_at_most(std::ptrdiff_t sum) const {
    return std::min(1.0, std::accumulate(chances_.begin(), chances_.begin() + sum + 1, 0.0));
  }

  std::size_t n_;
  std::vector<double> chances_;
  std::vector<double> averages_;  // Walsh averages, sorted
};

class Exact final : public Evidence {
 public:
  explicit Exact(double log_ratio) : log_ratio_(log_ratio) {}
  double estimate() const override { return log_ratio_; }
  Bounds interval(double) const override { return {log_ratio_, log_ratio_}; }
  double p_below(double x) const override { return log_ratio_ < x ? 0.0 : 1.0; }
  double p_above(double x) const override { return log_ratio_ > x ? 0.0 : 1.0; }
  std::vector<std::string> explain() const override {
    return {fmt::format("does not vary by chance: the logarithm of new / base is {:+.5f}", log_ratio_)};
  }

 private:
  double log_ratio_;
};

}  // namespace

std::unique_ptr<Evidence> unpaired_evidence(const RunLogs& base, const RunLogs& next, double between_runs) {
  return std::make_unique<Unpaired>(base, next, between_runs);
}

std::unique_ptr<Evidence> paired_evidence(std::vector<double> differences) {
  return std::make_unique<Paired>(std::move(differences));
}

std::unique_ptr<Evidence> exact_evidence(double log_ratio) { return std::make_unique<Exact>(log_ratio); }

}  // namespace dtrain::stats
