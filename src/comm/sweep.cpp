#include "comm/sweep.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace dtrain::comm {

namespace {

constexpr std::size_t period = 61;  // of the values; no power of two, so that shifted data shows

// Small whole numbers, whose sums are exact in any order.
float value_of(int rank, std::size_t i) {
  return static_cast<float>(i % period) + static_cast<float>(rank % 1000);
}

float sum_of(int ranks, std::size_t i) {
  float sum = static_cast<float>(ranks) * static_cast<float>(i % period);
  for (int rank = 0; rank < ranks; ++rank) sum += static_cast<float>(rank % 1000);
  return sum;
}

// Places that differ tell themselves apart by these four numbers: index, value, expected, and whether there
// is one at all.
struct Finding {
  double found = 0.0;
  double index = 0.0;
  double value = 0.0;
  double expected = 0.0;
};

Finding look_for_wrong(std::span<const float> data, int ranks) {
  float expected[period];
  for (std::size_t i = 0; i < period; ++i) expected[i] = sum_of(ranks, i);
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] == expected[i % period]) continue;
    return {1.0, static_cast<double>(i), static_cast<double>(data[i]),
            static_cast<double>(expected[i % period])};
  }
  return {};
}

// Of the bits; exact as a number.
double fingerprint(std::span<const float> data) {
  std::uint64_t hash = 1469598103934665603U;
  for (const float value : data) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 1099511628211U;
  return static_cast<double>(hash >> 12U);
}

class Sweep {
 public:
  Sweep(Communicator& communicator, const SweepConfig& config)
      : communicator_(communicator),
        config_(config),
        memory_(std::max<std::size_t>(*std::ranges::max_element(config.sizes) / sizeof(float), 1)) {
    communicator_.register_buffer(memory_);
  }

  SweepPoint measure(std::size_t bytes) {
    SweepPoint point;
    point.bytes = bytes;
    wrong_.reset();
    const std::span<float> data = std::span(memory_).first(bytes / sizeof(float));
    double slowest = 0.0;
    for (int i = 0; i < config_.warm_up; ++i) {
      slowest = slowest_of(time_one(data));
      if (point.wrong.empty()) check(data, point);
    }
    const int repetitions =
        std::clamp(static_cast<int>(config_.time_per_size.count() / slowest), config_.fewest, config_.most);
    std::vector<double> mine;
    for (int i = 0; i < repetitions; ++i) {
      mine.push_back(time_one(data));
      if (!config_.exact || wrong_) continue;
      const Finding finding = look_for_wrong(data, communicator_.size());
      if (finding.found != 0.0) wrong_ = finding;
    }
    point.seconds = slowest_of(mine);
    if (point.wrong.empty()) check(data, point);
    return point;
  }

 private:
  Deadline limit() const { return Deadline::in(config_.timeout); }

  double time_one(std::span<float> data) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = value_of(communicator_.rank(), i);
    communicator_.barrier(limit());
    const TimePoint begin = Clock::now();
    communicator_.wait(communicator_.all_reduce(data, {}), limit());
    return seconds(Clock::now() - begin);
  }

  // By repetition, over ranks.
  std::vector<double> slowest_of(const std::vector<double>& mine) {
    const auto all = communicator_.all_gather_values(mine, limit());
    std::vector<double> slowest(mine.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      slowest[i % mine.size()] = std::max(slowest[i % mine.size()], all[i]);
    }
    return slowest;
  }
  double slowest_of(double mine) { return slowest_of(std::vector{mine}).front(); }

  // All ranks come to the same opinion.
  void check(std::span<const float> data, SweepPoint& point) {
    if (!config_.exact) return check_agreement(data, point);
    const Finding mine = wrong_.value_or(look_for_wrong(data, communicator_.size()));
    wrong_.reset();
    const double told[] = {mine.found, mine.index, mine.value, mine.expected};
    const auto all = communicator_.all_gather_values(told, limit());
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      const double* theirs = all.data() + static_cast<std::ptrdiff_t>(rank) * 4;
      if (theirs[0] == 0.0) continue;
      point.wrong_rank = rank;
      point.wrong = fmt::format("rank {}, element {:.0f} of {}: {} instead of {}", rank, theirs[1],
                                data.size(), theirs[2], theirs[3]);
      return;
    }
  }

  void check_agreement(std::span<const float> data, SweepPoint& point) {
    const double mine = fingerprint(data);
    const auto all = communicator_.all_gather_values({&mine, 1}, limit());
    const auto other = std::ranges::find_if(all, [&](double theirs) { return theirs != all.front(); });
    if (other == all.end()) return;
    point.wrong_rank = static_cast<int>(other - all.begin());
    point.wrong = fmt::format("rank {} has other values than rank 0", point.wrong_rank);
  }

  Communicator& communicator_;
  const SweepConfig& config_;
  std::vector<float> memory_;
  std::optional<Finding> wrong_;  // the first one in this rank's repetitions
};

}  // namespace

std::vector<SweepPoint> sweep_all_reduce(Communicator& communicator, const SweepConfig& config) {
  std::vector<SweepPoint> points;
  if (config.sizes.empty()) return points;
  Sweep sweep(communicator, config);
  for (const std::size_t bytes : config.sizes) points.push_back(sweep.measure(bytes));
  communicator.barrier(Deadline::in(config.timeout));
  return points;
}

}  // namespace dtrain::comm
