#include "predict/nonnegative.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace dtrain::predict {
namespace {

TEST(Nonnegative, FindsWhatMadeTheValues) {
  const Columns truth{0.002, 8e-8, 0.0, 3e-10};
  std::vector<Equation> equations;
  for (const double n : {2.0, 4.0, 8.0, 3.0}) {
    const Columns columns{2 * (n - 1), 2 * (n - 1) / n * 5e5, 0.0, n * n * 5e5};
    equations.push_back({columns, product(columns, truth), 1.0});
  }
  const Columns found = fit_nonnegative(equations);
  for (std::size_t c = 0; c < coefficients; ++c) EXPECT_NEAR(found[c], truth[c], 1e-6 * truth[c]);
}

TEST(Nonnegative, NeverGoesBelowZero) {
  // Falls with the second column, so that alone could only be done by a negative one.
  const std::vector<Equation> equations{
      {{1, 1, 0, 0}, 10.0, 1.0}, {{1, 2, 0, 0}, 9.0, 1.0}, {{1, 3, 0, 0}, 8.0, 1.0}};
  const Columns found = fit_nonnegative(equations);
  EXPECT_EQ(found[1], 0.0);
  EXPECT_NEAR(found[0], 8.852, 0.001);  // least squares of relative errors
}

TEST(Nonnegative, CountsASinglePointAsBytes) {
  const std::vector<Equation> one{{{2, 1000, 0, 0}, 5.0, 1.0}};
  const Columns found = fit_nonnegative(one);
  EXPECT_EQ(found[0], 0.0);
  EXPECT_NEAR(found[1], 0.005, 1e-9);
}

TEST(Nonnegative, LeavesOutWhatTellsNothing) {
  EXPECT_EQ(fit_nonnegative({}), Columns{});
  const std::vector<Equation> zero{{{1, 1, 1, 1}, 0.0, 1.0}};
  EXPECT_EQ(fit_nonnegative(zero), Columns{});
}

}  // namespace
}  // namespace dtrain::predict
