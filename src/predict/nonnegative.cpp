#include "predict/nonnegative.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace dtrain::predict {

namespace {

using Matrix = std::array<Columns, coefficients>;

struct Normal {  // equations
  Matrix matrix{};
  Columns right{};
};

// Columns are scaled to their largest term, which makes latencies and bytes of one size.
Columns scales_of(std::span<const Equation> equations) {
  Columns scales{};
  for (const auto& equation : equations) {
    for (std::size_t c = 0; c < coefficients; ++c) {
      if (equation.value > 0.0) scales[c] = std::max(scales[c], equation.columns[c] / equation.value);
    }
  }
  return scales;
}

Normal normal_equations(std::span<const Equation> equations, const Columns& scales) {
  Normal normal;
  for (const auto& equation : equations) {
    if (!(equation.value > 0.0)) continue;
    Columns row{};
    for (std::size_t c = 0; c < coefficients; ++c) {
      if (scales[c] > 0.0) row[c] = equation.columns[c] / equation.value / scales[c];
    }
    for (std::size_t i = 0; i < coefficients; ++i) {
      for (std::size_t j = 0; j < coefficients; ++j) normal.matrix[i][j] += equation.weight * row[i] * row[j];
      normal.right[i] += equation.weight * row[i];
    }
  }
  return normal;
}

// Gaussian elimination over the chosen columns; none where they do not determine the unknowns.
std::optional<Columns> solve(const Normal& normal, const std::vector<std::size_t>& chosen) {
  constexpr double singular = 1e-9;
  const std::size_t n = chosen.size();
  std::vector<std::vector<double>> rows(n, std::vector<double>(n + 1));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) rows[i][j] = normal.matrix[chosen[i]][chosen[j]];
    rows[i][n] = normal.right[chosen[i]];
  }
  for (std::size_t i = 0; i < n; ++i) {
    const double diagonal = normal.matrix[chosen[i]][chosen[i]];
    if (!(rows[i][i] > singular * diagonal)) return std::nullopt;
    for (std::size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double factor = rows[k][i] / rows[i][i];
      for (std::size_t j = i; j <= n; ++j) rows[k][j] -= factor * rows[i][j];
    }
  }
  Columns solution{};
  for (std::size_t i = 0; i < n; ++i) {
    solution[chosen[i]] = rows[i][n] / rows[i][i];
    if (!(solution[chosen[i]] >= 0.0)) return std::nullopt;
  }
  return solution;
}

double squares(const Normal& normal, const Columns& x) {
  double sum = 0.0;
  for (std::size_t i = 0; i < coefficients; ++i) {
    sum -= 2.0 * normal.right[i] * x[i];
    for (std::size_t j = 0; j < coefficients; ++j) sum += x[i] * normal.matrix[i][j] * x[j];
  }
  return sum;
}

}  // namespace

double product(const Columns& a, const Columns& b) {
  double sum = 0.0;
  for (std::size_t c = 0; c < coefficients; ++c) sum += a[c] * b[c];
  return sum;
}

Columns fit_nonnegative(std::span<const Equation> equations) {
  const Columns scales = scales_of(equations);
  const Normal normal = normal_equations(equations, scales);
  double total = 0.0;
  for (const auto& equation : equations) total += equation.value > 0.0 ? equation.weight : 0.0;
  Columns best{};
  double least = 0.0;
  for (int size = 1; size <= static_cast<int>(coefficients); ++size) {
    for (unsigned set = (1U << coefficients) - 1U; set > 0; --set) {
      if (__builtin_popcount(set) != size) continue;
      std::vector<std::size_t> chosen;
      for (std::size_t c = 0; c < coefficients; ++c) {
        if ((set >> c & 1U) != 0U && scales[c] > 0.0) chosen.push_back(c);
      }
      if (std::cmp_not_equal(chosen.size(), size)) continue;
      const auto solution = solve(normal, chosen);
      if (!solution) continue;
      const double sum = squares(normal, *solution);
      if (sum < least - 1e-9 * total) {
        least = sum;
        best = *solution;
      }
    }
  }
  for (std::size_t c = 0; c < coefficients; ++c) best[c] = scales[c] > 0.0 ? best[c] / scales[c] : 0.0;
  return best;
}

}  // namespace dtrain::predict
