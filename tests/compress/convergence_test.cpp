#include <gtest/gtest.h>

#include "comm/compressor.hpp"
#include "fake_exchange.hpp"
#include "values.hpp"

// Gradient descent on the mean of |x - c|^2 / 2 over processes, each with a `c` of its own. The optimum is
// the mean of these; gradients of a process do not vanish there, only their sum does.

namespace dtrain::comm {
namespace {

using testing::ample;
using testing::run_processes;

constexpr int processes = 3;
constexpr std::size_t size = 400;
constexpr std::uint64_t seed = 5;

struct Problem {
  float apart = 0.0F;           // how far the processes' optima are from their mean
  std::size_t apart_in = size;  // the first elements, in which they differ
  float rate = 0.02F;
  int steps = 1500;
};

std::vector<float> optimum() { return testing::normal_values(size, 1); }

// Sums up to 0 over processes; roundings of its parts do not.
float deviation(const Problem& problem, int rank, std::size_t i) {
  if (i >= problem.apart_in) return 0.0F;
  const float first = problem.apart * (1.0F + static_cast<float>(i) / size);
  const float second = -0.7F * first;
  return rank == 0 ? first : rank == 1 ? second : -(first + second);
}

double distance(std::span<const float> x) {
  double sum = 0.0;
  const auto c = optimum();
  for (std::size_t i = 0; i < size; ++i) sum += std::pow(static_cast<double>(x[i]) - c[i], 2);
  return std::sqrt(sum);
}

// How much of the distance to the optimum is left. A compressor that is made anew for every step remembers
// nothing.
double distance_left(const std::string& text, const Problem& problem, bool remember) {
  std::vector<double> left(processes);
  run_processes(processes, [&](Exchange& exchange) {
    const int rank = exchange.rank();
    auto compressor = make_compressor(text, seed);
    const auto c = optimum();
    std::vector<float> x(size, 0.0F);
    std::vector<float> gradient(size);
    for (int step = 0; step < problem.steps; ++step) {
      for (std::size_t i = 0; i < size; ++i) {
        gradient[i] = (x[i] - c[i] - deviation(problem, rank, i)) / processes;
      }
      if (!remember) compressor = make_compressor(text, seed);
      compressor->all_reduce(gradient, exchange, ample());
      for (std::size_t i = 0; i < size; ++i) x[i] -= problem.rate * gradient[i];
    }
    left[static_cast<std::size_t>(rank)] = distance(x) / distance(std::vector<float>(size, 0.0F));
  });
  for (const double other : left) EXPECT_EQ(other, left[0]);
  return left[0];
}

struct Case {
  const char* text;
  Problem problem;
  double with_memory;     // at most
  double without_memory;  // at least
};

class Convergence : public ::testing::TestWithParam<Case> {};

TEST_P(Convergence, NeedsTheMemoryOfWhatWasNotSent) {
  const Case& c = GetParam();
  const double with = distance_left(c.text, c.problem, true);
  const double without = distance_left(c.text, c.problem, false);
  RecordProperty("with", std::to_string(with));
  RecordProperty("without", std::to_string(without));
  EXPECT_LT(with, c.with_memory);
  EXPECT_GT(without, c.without_memory);
}

// Rounding: gradients that are far larger than their sum lose it. Top-k: the large ones that add up to
// nothing are all that is ever sent. PowerSGD: directions that the first ones have no part in are never sent.
INSTANTIATE_TEST_SUITE_P(Compressions, Convergence,
                         ::testing::Values(Case{"fp16", {.apart = 2000.0F}, 0.02, 0.1},
                                           Case{"bf16", {.apart = 2000.0F}, 0.1, 0.5},
                                           Case{"topk:0.05", {.apart = 20.0F, .apart_in = 20}, 0.05, 0.9},
                                           Case{"powersgd:1", {.apart = 1.0F}, 0.05, 0.5},
                                           Case{"powersgd:4", {.apart = 1.0F}, 0.05, 0.07}),
                         [](const auto& c) {
                           std::string name = c.param.text;
                           std::ranges::replace_if(
                               name, [](char l) { return l == ':' || l == '.'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace dtrain::comm
