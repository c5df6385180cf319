#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "stats/interval.hpp"
#include "tune/schedule.hpp"

namespace dtrain::tune {

inline constexpr int default_candidate = 0;

// How one candidate did in one rung.
struct Standing {
  int candidate = default_candidate;
  std::vector<double> rates{};  // images a second, by round
  double gain = 0.0;            // median over all its rounds so far of its rate / the default's, less 1
  bool kept = false;
  std::string failure{};  // why it could not be measured; empty = it could
};

struct Rung {
  int rounds = 0;                   // as planned
  bool cut_short = false;           // time ran out: judged by the rounds that all took part in
  std::vector<Standing> standings;  // the default first, the others in the order they were measured
};

// Two stretches next to each other.
struct Pair {
  double base = 0.0;   // images a second of the default
  double rival = 0.0;  // and of the last candidate left
};

struct Outcome {
  Schedule schedule;
  double stretch_seconds =
      0.0;  // that one was thought to take, from the first, which counts for nothing else
  std::vector<Rung> rungs;
  int rival = default_candidate;  // the last candidate left; the default where none could be measured
  std::vector<Pair> pairs;        // of fresh rounds: they had no say in the choice of the rival
  stats::Interval gain;           // of the rival over the default: median over pairs of the ratio, less 1
  int winner = default_candidate;
  std::string why;  // one sentence
  int stretches = 0;
  double seconds = 0.0;  // that the search took
};

// What the search works with.
class Trials {
 public:
  virtual ~Trials() = default;
  // Images a second of a short stretch. Throws Error (run) where the candidate cannot be measured, which is
  // then out; other exceptions end the search.
  virtual double measure(int candidate) = 0;
  virtual double elapsed() const = 0;  // seconds since the search was asked for
  virtual void rung_ended(const Rung&) {}
};

// Finds the fastest of candidates 1 .. `available` by successive halving (Karnin and others 2013; Jamieson,
// Talwalkar 2016): all get a few rounds in turns with the default, the better half stays and gets twice as
// many, until one is left. Every second turn goes backwards, and what counts is the ratio to the default in
// the same round, so that a drift of the machine favours none. Who is left meets the default in pairs that
// were not used for choosing: best of many is otherwise also luckiest of many. The default wins unless the
// 95 % interval of that gain lies above zero.
//
// No stretch begins that is likely to end after the budget. Usage error, naming a budget that would do, where
// the first stretch shows that it is too short for the smallest search. `available` is at least 1.
Outcome search(int available, Seconds budget, Trials& trials);

}  // namespace dtrain::tune
