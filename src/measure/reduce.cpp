#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "measure/protocol.hpp"

namespace dtrain::measure {

namespace {

// Rounding of durations that were summed before they were stored.
constexpr std::int64_t tolerated_ns = 1000;

// To which clocks of several hosts agree.
constexpr std::int64_t clocks_agree_ns = 1'000'000;

[[noreturn]] void refuse(std::size_t rank, std::size_t step, const std::string& what) {
  throw run_error(fmt::format("rank {}, step {}: {}", rank, step, what),
                  "the measurement cannot be trusted: this is an error in the program, please report it");
}

std::int64_t phases_ns(const StepRecord& r) {
  const std::int64_t waited = r.arrival_ns != 0 ? r.communicated_ns - r.arrival_ns : 0;
  return r.input_ns + r.forward_ns + r.backward_ns + r.communication_in_backward_ns + waited + r.update_ns +
         r.fused_ns;
}

void check_record(const StepRecord& r, std::int64_t previous_end, std::size_t rank, std::size_t step) {
  if (r.begin_ns < previous_end) refuse(rank, step, "begins before the step before has ended");
  if (r.end_ns < r.begin_ns) refuse(rank, step, "ends before it begins");
  if (r.arrival_ns != 0 &&
      (r.arrival_ns < r.begin_ns || r.communicated_ns < r.arrival_ns || r.end_ns < r.communicated_ns)) {
    refuse(rank, step, "the stamps of its collective are out of order");
  }
  if (std::min({r.input_ns, r.forward_ns, r.backward_ns, r.communication_in_backward_ns, r.update_ns,
                r.fused_ns}) < 0) {
    refuse(rank, step, "a phase has a negative duration");
  }
  if (phases_ns(r) > r.end_ns - r.begin_ns + tolerated_ns) {
    refuse(rank, step, "its phases add up to more than the step");
  }
  if (r.images < 0) refuse(rank, step, "has a negative number of images");
}

void check(const StretchRecord& stretch) {
  if (stretch.ranks.empty()) throw run_error("a stretch without ranks was measured", "please report it");
  const std::size_t steps = stretch.ranks.front().size();
  for (std::size_t rank = 0; rank < stretch.ranks.size(); ++rank) {
    const auto& records = stretch.ranks[rank];
    if (records.empty() || records.size() != steps) {
      refuse(rank, records.size(), fmt::format("took {} steps where rank 0 took {}", records.size(), steps));
    }
    std::int64_t previous_end = records.front().begin_ns;
    for (std::size_t step = 0; step < steps; ++step) {
      check_record(records[step], previous_end, rank, step);
      previous_end = records[step].end_ns;
    }
  }
}

// The common start; a rank that was off before it counts from its own.
std::int64_t start_of(const StretchRecord& stretch) {
  std::int64_t start = stretch.begin_ns;
  for (const auto& records : stretch.ranks) start = std::min(start, records.front().begin_ns);
  return start;
}

double median_of_others(std::vector<std::int64_t> values, std::size_t left_out) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(left_out));
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return 0.5 * (static_cast<double>(values[(n - 1) / 2]) + static_cast<double>(values[n / 2]));
}

// What the arrivals of a stretch say of each rank, in ns; averaged by the caller.
struct ArrivalSums {
  std::vector<std::int64_t> left;  // when it left the last collective
  std::vector<std::int64_t> wait;
  std::vector<double> late;
  std::vector<int> last;
  int steps = 0;  // in which every rank stamped one
  bool partial = false;
};

void add_step(const StretchRecord& stretch, std::size_t step, ArrivalSums& sums) {
  const std::size_t ranks = stretch.ranks.size();
  std::vector<std::int64_t> arrivals(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) arrivals[rank] = stretch.ranks[rank][step].arrival_ns;
  const auto stamped = std::count_if(arrivals.begin(), arrivals.end(), [](auto ns) { return ns != 0; });
  if (stamped == 0) return;
  if (stamped != static_cast<std::ptrdiff_t>(ranks)) {
    sums.partial = true;
    return;
  }
  ++sums.steps;
  if (ranks == 1) return;
  const auto last = std::max_element(arrivals.begin(), arrivals.end());
  ++sums.last[static_cast<std::size_t>(last - arrivals.begin())];
  // Ranks do not leave a collective at the same moment, which is none of their doing: their own way is from
  // there to the next one.
  std::vector<std::int64_t> way(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    way[rank] = arrivals[rank] - std::exchange(sums.left[rank], stretch.ranks[rank][step].communicated_ns);
  }
  const std::int64_t last_ns = *last;
  for (auto& ns : arrivals) ns -= last_ns;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const StepRecord& r = stretch.ranks[rank][step];
    const bool went_on_without_the_last = r.communicated_ns + clocks_agree_ns < last_ns;
    if (!went_on_without_the_last)
      sums.wait[rank] += std::min(-arrivals[rank], r.communicated_ns - r.arrival_ns);
    sums.late[rank] += static_cast<double>(way[rank]) - median_of_others(way, rank);
  }
}

ArrivalSums add_up_arrivals(const StretchRecord& stretch) {
  const std::size_t ranks = stretch.ranks.size();
  ArrivalSums sums{.left = std::vector<std::int64_t>(ranks, start_of(stretch)),
                   .wait = std::vector<std::int64_t>(ranks),
                   .late = std::vector<double>(ranks),
                   .last = std::vector<int>(ranks)};
  for (std::size_t step = 0; step < stretch.ranks.front().size(); ++step) add_step(stretch, step, sums);
  return sums;
}

RankPhases phases_of(const std::vector<StepRecord>& records, std::int64_t start) {
  StepRecord sum;
  std::int64_t communication = 0;
  for (const auto& r : records) {
    sum.input_ns += r.input_ns;
    sum.forward_ns += r.forward_ns;
    sum.backward_ns += r.backward_ns;
    sum.update_ns += r.update_ns;
    sum.fused_ns += r.fused_ns;
    communication += r.communication_in_backward_ns;
    if (r.arrival_ns != 0) communication += r.communicated_ns - r.arrival_ns;
  }
  const std::int64_t whole = records.back().end_ns - start;
  const std::int64_t covered =
      sum.input_ns + sum.forward_ns + sum.backward_ns + communication + sum.update_ns + sum.fused_ns;
  const auto mean = [n = static_cast<double>(records.size())](std::int64_t ns) {
    return static_cast<double>(ns) * 1e-9 / n;
  };
  return {.input = mean(sum.input_ns),
          .forward = mean(sum.forward_ns),
          .backward = mean(sum.backward_ns),
          .communication = mean(communication),
          .update = mean(sum.update_ns),
          .fused = mean(sum.fused_ns),
          .host = mean(whole - covered)};
}

std::vector<double> thin(std::vector<double> values, std::size_t kept) {
  if (values.size() <= kept) return values;
  std::vector<double> out(kept);
  for (std::size_t i = 0; i < kept; ++i) out[i] = values[i * values.size() / kept];
  return out;
}

}  // namespace

std::vector<double> step_times(const StretchRecord& stretch) {
  check(stretch);
  std::vector<double> times;
  times.reserve(stretch.ranks.front().size());
  std::int64_t previous = start_of(stretch);
  for (std::size_t step = 0; step < stretch.ranks.front().size(); ++step) {
    std::int64_t end = previous;
    for (const auto& records : stretch.ranks) end = std::max(end, records[step].end_ns);
    times.push_back(static_cast<double>(end - previous) * 1e-9);
    previous = end;
  }
  return times;
}

RoundSample reduce(const StretchRecord& stretch) {
  RoundSample sample;
  sample.step_seconds = thin(step_times(stretch), max_kept_steps);
  sample.steps = static_cast<int>(stretch.ranks.front().size());

  const std::int64_t start = start_of(stretch);
  std::int64_t end = start;
  const ArrivalSums arrivals = add_up_arrivals(stretch);
  const bool measured = arrivals.steps > 0 && !arrivals.partial;
  for (std::size_t rank = 0; rank < stretch.ranks.size(); ++rank) {
    const auto& records = stretch.ranks[rank];
    end = std::max(end, records.back().end_ns);
    for (const auto& r : records) sample.images += r.dropped ? 0 : r.images;
    RankPhases& phases = sample.ranks.emplace_back(phases_of(records, start));
    if (!measured) continue;
    phases.arrival_measured = true;
    phases.straggler_wait = static_cast<double>(arrivals.wait[rank]) * 1e-9 / sample.steps;
    phases.last_arrivals = static_cast<double>(arrivals.last[rank]) / arrivals.steps;
    phases.lateness = arrivals.late[rank] * 1e-9 / sample.steps;
  }
  sample.seconds = static_cast<double>(end - start) * 1e-9;
  return sample;
}

}  // namespace dtrain::measure
