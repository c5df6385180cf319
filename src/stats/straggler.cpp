#include "stats/straggler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "stats/interval.hpp"

namespace dtrain::stats {

namespace {

constexpr double floor_of_step = 0.02;
constexpr double floor_seconds = 0.2e-3;  // to wake a thread may take as long on a busy machine
constexpr double above_chance = 0.25;     // of the way from chance to all steps
constexpr double consistent_rounds = 0.9;
constexpr double signal_to_noise = 2.0;
constexpr double deviation_of_normal = 1.4826;  // standard deviation / median absolute deviation
constexpr int rounds_to_judge_noise = 5;
constexpr double floor_of_step_few_rounds = 0.2;
constexpr double last_share_few_rounds = 0.85;

using Rounds = std::vector<const measure::RoundSample*>;

Rounds rounds_with_arrivals(const measure::RunSamples& run) {
  Rounds rounds;
  const auto measured = [](const measure::RankPhases& rank) { return rank.arrival_measured; };
  for (const auto& round : run.rounds) {
    const bool complete = std::cmp_equal(round.ranks.size(), run.plan.replicas);
    if (complete && round.steps > 0 && std::all_of(round.ranks.begin(), round.ranks.end(), measured)) {
      rounds.push_back(&round);
    }
  }
  return rounds;
}

template <class Value>
double median_of_others(const measure::RoundSample& round, std::size_t rank, Value value) {
  std::vector<double> others;
  for (std::size_t other = 0; other < round.ranks.size(); ++other) {
    if (other != rank) others.push_back(value(round.ranks[other]));
  }
  return median(std::move(others));
}

template <class Value>
double beyond_others(const measure::RoundSample& round, std::size_t rank, Value value) {
  return value(round.ranks[rank]) - median_of_others(round, rank, value);
}

double outside_communication(const measure::RankPhases& r) {
  return r.input + r.forward + r.backward + r.update + r.host;
}

// Of its work for a collective, the last to come does a part before it arrives that the others, who wait for
// it, do afterwards. That much is the last one's lot and not its fault.
double lateness(const measure::RoundSample& round, std::size_t rank) {
  const double late = round.ranks[rank].lateness;
  const double at_collective = late - beyond_others(round, rank, &outside_communication);
  const double done_later_by_others =
      median_of_others(round, rank, [](const auto& r) { return r.communication - r.straggler_wait; });
  return late - std::clamp(at_collective, 0.0, std::max(done_later_by_others, 0.0));
}

double last_share(const Rounds& rounds, std::size_t rank) {
  double last = 0.0;
  double steps = 0.0;
  for (const auto* round : rounds) {
    last += round->ranks[rank].last_arrivals * round->steps;
    steps += round->steps;
  }
  return last / steps;
}

double deviation(const std::vector<double>& values, double middle) {
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return deviation_of_normal * median(distances);
}

std::vector<double> by_round(const Rounds& rounds, std::size_t rank) {
  std::vector<double> late;
  for (const auto* round : rounds) late.push_back(lateness(*round, rank));
  return late;
}

// How far the other ranks lie apart; typical over rounds.
double spread_of_others(const Rounds& rounds, std::size_t rank) {
  std::vector<double> spreads;
  for (const auto* round : rounds) {
    std::vector<double> late;
    for (std::size_t other = 0; other < round->ranks.size(); ++other) {
      if (other != rank) late.push_back(lateness(*round, other));
    }
    const auto [least, most] = std::minmax_element(late.begin(), late.end());
    spreads.push_back(*most - *least);
  }
  return median(spreads);
}

bool late_beyond_noise(const Rounds& rounds, std::size_t rank, bool few) {
  const double share_of_step = few ? floor_of_step_few_rounds : floor_of_step;
  const double spread = spread_of_others(rounds, rank);
  const std::vector<double> own = by_round(rounds, rank);
  double beyond = 0.0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double floor =
        std::max({floor_seconds, share_of_step * rounds[i]->seconds / rounds[i]->steps, spread});
    beyond += own[i] > floor ? 1.0 : 0.0;
  }
  if (beyond < consistent_rounds * static_cast<double>(own.size())) return false;
  const double middle = median(own);
  return few || middle >= signal_to_noise * deviation(own, middle);
}

// Median over rounds of what the rank took more than the median of the others.
template <class Value>
double excess(const Rounds& rounds, std::size_t rank, Value value) {
  std::vector<double> differences;
  for (const auto* round : rounds) differences.push_back(beyond_others(*round, rank, value));
  return median(differences);
}

// What a rank works for a collective before it arrives is what the other phases leave of its lateness: time
// in the collective says nothing, because ranks leave it at different moments.
void find_phase(Straggler& straggler, const Rounds& rounds) {
  using measure::RankPhases;
  const auto rank = static_cast<std::size_t>(straggler.rank);
  const double elsewhere = excess(rounds, rank, &outside_communication);
  const std::array<double, config::phase_count> more = {
      excess(rounds, rank, [](const RankPhases& r) { return r.input; }),
      excess(rounds, rank, [](const RankPhases& r) { return r.forward; }),
      excess(rounds, rank, [](const RankPhases& r) { return r.backward; }),
      straggler.seconds_late - elsewhere,
      excess(rounds, rank, [](const RankPhases& r) { return r.update; }),
  };
  const auto most = std::max_element(more.begin(), more.end());
  straggler.phase = static_cast<config::Phase>(most - more.begin());
  straggler.between_phases = excess(rounds, rank, [](const RankPhases& r) { return r.host; }) > *most;
}

}  // namespace

std::optional<Straggler> find_straggler(const measure::RunSamples& run) {
  const auto ranks = static_cast<std::size_t>(std::max(run.plan.replicas, 0));
  const Rounds rounds = rounds_with_arrivals(run);
  if (ranks < 2 || rounds.empty()) return std::nullopt;
  const bool few = std::ssize(rounds) < rounds_to_judge_noise;
  const double chance = 1.0 / static_cast<double>(ranks);
  const double share_needed = few ? last_share_few_rounds : std::lerp(chance, 1.0, above_chance);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double share = last_share(rounds, rank);
    if (share <= share_needed || !late_beyond_noise(rounds, rank, few)) continue;
    Straggler straggler{.rank = static_cast<int>(rank), .last_share = share};
    straggler.seconds_late = median(by_round(rounds, rank));
    find_phase(straggler, rounds);
    return straggler;
  }
  return std::nullopt;
}

}  // namespace dtrain::stats
