#pragma once

#include <array>
#include <span>

namespace dtrain::predict {

inline constexpr std::size_t coefficients = 4;
using Columns = std::array<double, coefficients>;

// One equation: the columns times the unknowns should give `value`; `weight` says how much it counts.
struct Equation {
  Columns columns{};
  double value = 0.0;
  double weight = 1.0;
};

// The unknowns, none of them negative, that leave the least sum of weighted squares of relative errors. Where
// fewer explain the values as well, the others are 0; of those, earlier columns give way to later ones.
// Values of 0 and less tell nothing and are left out.
Columns fit_nonnegative(std::span<const Equation> equations);

double product(const Columns& a, const Columns& b);

}  // namespace dtrain::predict
