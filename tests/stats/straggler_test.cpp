#include "stats/straggler.hpp"

#include <gtest/gtest.h>

#include "synthetic.hpp"

namespace dtrain::stats {
namespace {

// Rounds of `steps` steps of ranks whose phases vary from step to step and from round to round.
struct Noise {
  double step = 0.05;   // relative deviation of a phase within a round
  double round = 0.01;  // and of a rank's phase between rounds
};

using Phases = std::array<double, config::phase_count>;

measure::RunSamples noisy_run(int ranks, int rounds, int steps, Noise noise, std::uint64_t seed,
                              const std::function<void(int rank, Phases&)>& spoil = {}) {
  Random random(seed);
  auto run = make_run("n", ranks);
  for (int i = 0; i < rounds; ++i) {
    measure::RoundSample round;
    round.steps = steps;
    round.images = 64L * ranks * steps;
    round.ranks.resize(static_cast<std::size_t>(ranks));
    std::vector<Phases> typical(static_cast<std::size_t>(ranks));
    for (auto& phases : typical) {
      phases = {1 * ms, 10 * ms, 18 * ms, 1 * ms, 2 * ms};
      for (double& phase : phases) phase *= 1.0 + noise.round * random.normal();
    }
    for (int step = 0; step < steps; ++step) {
      std::vector<double> arrival(typical.size());
      for (std::size_t rank = 0; rank < typical.size(); ++rank) {
        Phases phases = typical[rank];
        for (double& phase : phases) phase *= std::max(0.1, 1.0 + noise.step * random.normal());
        if (spoil) spoil(static_cast<int>(rank), phases);
        auto& p = round.ranks[rank];
        p.input += phases[0] / steps;
        p.forward += phases[1] / steps;
        p.backward += phases[2] / steps;
        p.communication += phases[3] / steps;
        p.update += phases[4] / steps;
        arrival[rank] = phases[0] + phases[1] + phases[2] + phases[4];
      }
      const auto last = std::max_element(arrival.begin(), arrival.end());
      round.ranks[static_cast<std::size_t>(last - arrival.begin())].last_arrivals += 1.0 / steps;
      for (std::size_t rank = 0; rank < arrival.size(); ++rank) {
        auto others = arrival;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(rank));
        round.ranks[rank].lateness += (arrival[rank] - median(others)) / steps;
        round.ranks[rank].straggler_wait += (*last - arrival[rank]) / steps;
        round.ranks[rank].communication += (*last - arrival[rank]) / steps;
        round.ranks[rank].arrival_measured = true;
      }
      round.seconds += *last + 1 * ms;
    }
    run.rounds.push_back(round);
  }
  return run;
}

TEST(FindStraggler, NamesRankAndPhaseOfAnInjectedDelay) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (int phase = 0; phase < config::phase_count; ++phase) {
      if (static_cast<config::Phase>(phase) == config::Phase::communication) continue;
      const int slow = ranks - 1 - phase % 2;
      const auto run = noisy_run(ranks, 5, 40, {}, 100 + phase, [&](int rank, Phases& phases) {
        if (rank == slow) phases[phase] += 10 * ms;
      });
      const auto found = find_straggler(run);
      ASSERT_TRUE(found) << ranks << " ranks, phase " << phase;
      EXPECT_EQ(found->rank, slow);
      EXPECT_EQ(static_cast<int>(found->phase), phase);
      EXPECT_FALSE(found->between_phases);
      EXPECT_GT(found->last_share, 0.9);
      EXPECT_NEAR(found->seconds_late, 10 * ms, 2 * ms);
    }
  }
}

TEST(FindStraggler, NamesOneThatCommunicatesLongerWithinBackward) {
  const auto run = noisy_run(4, 5, 40, {}, 9, [](int rank, Phases& phases) {
    if (rank == 1) phases[3] += 6 * ms;
  });
  auto late = run;  // that communication lies before the arrival
  for (auto& round : late.rounds) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      round.ranks[rank].last_arrivals = rank == 1 ? 1.0 : 0.0;
      round.ranks[rank].lateness = rank == 1 ? 6 * ms : 0.0;
    }
  }
  const auto found = find_straggler(late);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->phase, config::Phase::communication);
}

TEST(FindStraggler, NamesOneInASingleRoundOnlyWhenItIsOverwhelming) {
  const auto delayed = [](double by) {
    return noisy_run(2, 1, 20, {}, 4, [by](int rank, Phases& phases) {
      if (rank == 0) phases[0] += by;
    });
  };
  const auto found = find_straggler(delayed(10 * ms));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 0);
  EXPECT_FALSE(find_straggler(delayed(1 * ms)));
}

TEST(FindStraggler, SeesADelayInSpiteOfADisturbedRound) {
  auto run = noisy_run(2, 5, 40, {}, 5, [](int rank, Phases& phases) {
    if (rank == 1) phases[1] += 10 * ms;
  });
  run.rounds[2].ranks[1].lateness = 80 * ms;
  const auto found = find_straggler(run);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->seconds_late, 10 * ms, 2 * ms);
}

using Spoil = std::function<void(int rank, Phases&)>;
using MakeSpoil = std::function<Spoil(std::uint64_t seed, int ranks)>;

constexpr int cases = 500;
constexpr int steps_a_round = 40;

int alarms(int ranks, int rounds, Noise noise, const MakeSpoil& make_spoil = {}) {
  int count = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    const Spoil spoil = make_spoil ? make_spoil(seed, ranks) : Spoil();
    count += find_straggler(noisy_run(ranks, rounds, steps_a_round, noise, 1000 + seed, spoil)) ? 1 : 0;
  }
  return count;
}

TEST(FindStraggler, NamesNobodyWhenNobodyIsSlow) {
  for (const int ranks : {2, 4, 8}) {
    for (const int rounds : {1, 3, 5}) {
      EXPECT_EQ(alarms(ranks, rounds, {.step = 0.05, .round = 0.01}), 0) << ranks << " x " << rounds;
    }
  }
}

TEST(FindStraggler, SeldomNamesAnyoneWhereRoundsDifferWildly) {
  for (const int ranks : {2, 4}) {
    for (const int rounds : {1, 3, 5}) {
      EXPECT_LE(alarms(ranks, rounds, {.step = 0.2, .round = 0.1}), cases / 50) << ranks << " x " << rounds;
    }
  }
}

// A rank that was a little slow stays so for some time: rounds of it are no independent samples.
Spoil wandering(std::uint64_t seed, int ranks) {
  constexpr double memory = 0.95;
  return [random = Random(seed), level = std::vector<double>(static_cast<std::size_t>(ranks))](
             int rank, Phases& phases) mutable {
    double& own = level[static_cast<std::size_t>(rank)];
    own = memory * own + std::sqrt(1.0 - memory * memory) * random.normal();
    phases[1] *= 1.0 + 0.1 * own;
  };
}

// Rank 0 is no slower than others but for one step in twenty.
Spoil heavy_tail_of_one(std::uint64_t seed, int) {
  return [random = Random(seed)](int rank, Phases& phases) mutable {
    if (rank == 0 && random.uniform() < 0.05) phases[2] -= 20 * ms * std::log(1.0 - random.uniform());
  };
}

Spoil two_modes_of_steps(std::uint64_t seed, int) {
  return [random = Random(seed)](int, Phases& phases) mutable {
    if (random.uniform() < 0.5) phases[2] *= 1.3;
  };
}

Spoil two_modes_of_rounds(std::uint64_t seed, int ranks) {
  return [random = Random(seed), slow = std::vector<bool>(static_cast<std::size_t>(ranks)), ranks, calls = 0](
             int rank, Phases& phases) mutable {
    if (calls++ % (steps_a_round * ranks) == 0) {
      for (int i = 0; i < ranks; ++i) slow[static_cast<std::size_t>(i)] = random.uniform() < 0.5;
    }
    if (slow[static_cast<std::size_t>(rank)]) phases[2] *= 1.2;
  };
}

TEST(FindStraggler, IsSeldomFooledByNoiseThatIsNotNormal) {
  const std::array<std::pair<const char*, MakeSpoil>, 4> kinds = {
      {{"wandering", &wandering},
       {"heavy tail", &heavy_tail_of_one},
       {"modes of steps", &two_modes_of_steps},
       {"modes of rounds", &two_modes_of_rounds}}};
  for (const auto& [name, make_spoil] : kinds) {
    for (const int ranks : {2, 4}) {
      EXPECT_LE(alarms(ranks, 5, {.step = 0.05, .round = 0.01}, make_spoil), cases / 50)
          << name << ", " << ranks;
    }
  }
}

TEST(FindStraggler, FindsARankThatIsLateByATwentiethOfTheStep) {
  constexpr double step = 32 * ms;
  for (const int ranks : {2, 4, 8}) {
    int found = 0;
    for (std::uint64_t seed = 0; seed < cases; ++seed) {
      const auto straggler = find_straggler(noisy_run(ranks, 5, steps_a_round, {.step = 0.05, .round = 0.01},
                                                      seed, [&](int rank, Phases& phases) {
                                                        if (rank == ranks - 1) phases[1] += 0.05 * step;
                                                      }));
      found +=
          straggler && straggler->rank == ranks - 1 && straggler->phase == config::Phase::forward ? 1 : 0;
    }
    EXPECT_GE(found, cases * 95 / 100) << ranks;
  }
}

// Rank 1 comes last to every collective, because the end of the one before reaches it later.
TEST(FindStraggler, BlamesNobodyForBeingLetGoLater) {
  auto run = noisy_run(2, 5, 40, {}, 11);
  for (auto& round : run.rounds) {
    round.ranks[1].last_arrivals = 1.0;
    round.ranks[0].last_arrivals = 0.0;
    round.ranks[0].straggler_wait = 5 * ms;
    round.ranks[0].communication = 6 * ms;
    round.ranks[1].straggler_wait = 0.0;
    round.ranks[1].communication = 6 * ms;
  }
  EXPECT_FALSE(find_straggler(run));
}

// Whoever comes last finds the others' gradients there, and adds them up before it arrives; the others do so
// afterwards.
TEST(FindStraggler, BlamesNobodyForTheWorkOfTheLastToCome) {
  const auto last_adds_up = [](double work) {
    auto run = noisy_run(2, 5, 40, {.step = 0.0, .round = 0.0}, 13);
    for (auto& round : run.rounds) {
      for (auto& rank : round.ranks) {
        rank = {.forward = 10 * ms,
                .backward = 18 * ms,
                .communication = work + 3 * ms,
                .arrival_measured = true};
      }
      round.ranks[0].straggler_wait = work;
      round.ranks[1].last_arrivals = 1.0;
      round.ranks[1].lateness = work;
    }
    return find_straggler(run);
  };
  EXPECT_FALSE(last_adds_up(3 * ms));
  const auto found = last_adds_up(13 * ms);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->phase, config::Phase::communication);
  EXPECT_NEAR(found->seconds_late, 10 * ms, 1e-9);
}

TEST(FindStraggler, IgnoresALatenessThatDoesNotMatter) {
  // Always last, by a hundredth of the step.
  const auto run = noisy_run(4, 5, 40, {.step = 0.0, .round = 0.0}, 6, [](int rank, Phases& phases) {
    if (rank == 2) phases[1] += 0.3 * ms;
  });
  EXPECT_DOUBLE_EQ(run.rounds[0].ranks[2].last_arrivals, 1.0);
  EXPECT_FALSE(find_straggler(run));
}

TEST(FindStraggler, IgnoresWhatWakingAThreadMayTake) {
  auto run = noisy_run(2, 5, 40, {.step = 0.0, .round = 0.0}, 6);
  const auto late_by = [&](double seconds) {
    for (auto& round : run.rounds) {
      round.seconds = 1 * ms * round.steps;
      round.ranks[1].backward = round.ranks[0].backward + seconds;
      round.ranks[1].lateness = seconds;
      round.ranks[1].last_arrivals = 1.0;
    }
    return find_straggler(run).has_value();
  };
  EXPECT_FALSE(late_by(0.15 * ms));
  EXPECT_TRUE(late_by(0.25 * ms));
}

TEST(FindStraggler, NamesNobodyWhenTwoShareTheBlame) {
  const auto run = noisy_run(4, 5, 40, {}, 7, [](int rank, Phases& phases) {
    if (rank >= 2) phases[1] += 10 * ms;
  });
  EXPECT_FALSE(find_straggler(run));
}

TEST(FindStraggler, NamesNobodyWhoWasLateInHalfOfTheRounds) {
  int round = -1;
  const auto late = noisy_run(2, 6, 40, {}, 8, [&, calls = 0](int rank, Phases& phases) mutable {
    if (calls++ % 80 == 0) ++round;
    if (rank == 1 && round % 2 == 0) phases[1] += 10 * ms;
  });
  EXPECT_FALSE(find_straggler(late));
}

TEST(FindStraggler, SaysWhenTheTimeWasLostBetweenPhases) {
  const RankStep late{.host = 9 * ms};
  auto run = make_run("n", 4);
  for (int i = 0; i < 5; ++i)
    run.rounds.push_back(make_round({RankStep{}, late, RankStep{}, RankStep{}}, 50, 256));
  const auto found = find_straggler(run);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_TRUE(found->between_phases);
}

TEST(FindStraggler, AbstainsWithoutArrivals) {
  auto run = make_run("n", 2);
  run.rounds.push_back(make_round({RankStep{}, RankStep{.forward = 30 * ms}}, 50, 128));
  ASSERT_TRUE(find_straggler(run));
  auto unmeasured = run;
  for (auto& rank : unmeasured.rounds[0].ranks) rank.arrival_measured = false;
  EXPECT_FALSE(find_straggler(unmeasured));
  auto partial = run;
  partial.rounds[0].ranks.pop_back();
  EXPECT_FALSE(find_straggler(partial));
  EXPECT_FALSE(find_straggler(make_run("n", 2)));
  auto lone = make_run("n", 1);
  lone.rounds.push_back(make_round({RankStep{}}, 50, 64));
  EXPECT_FALSE(find_straggler(lone));
}

}  // namespace
}  // namespace dtrain::stats
