#include "kernels/low_rank.hpp"

#include <gtest/gtest.h>

#include "values.hpp"

namespace dtrain::kernels {
namespace {

struct Case {
  std::size_t size;
  std::size_t columns;
  std::size_t rank;
  std::size_t rows() const { return (size + columns - 1) / columns; }
};

const Case cases[] = {{1, 1, 1},     {12, 4, 2},    {13, 4, 1}, {1000, 32, 3},
                      {1003, 33, 4}, {5000, 71, 9}, {31, 16, 8}};

void expect_near(std::span<const float> a, std::span<const float> b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(LowRank, ProductsAreTheReferences) {
  for (const Case& c : cases) {
    const auto m = testing::normal_values(c.size, 1);
    const auto q = testing::normal_values(c.rank * c.columns, 2);
    const auto p = testing::normal_values(c.rank * c.rows(), 3);
    std::vector<float> fast(p.size());
    std::vector<float> slow(p.size());
    multiply(m, c.columns, q, fast);
    multiply_reference(m, c.columns, q, slow);
    expect_near(fast, slow, 1e-4);

    fast.assign(q.size(), 7.0F);
    slow.resize(q.size());
    multiply_transposed(m, c.columns, p, fast);
    multiply_transposed_reference(m, c.columns, p, slow);
    expect_near(fast, slow, 1e-4);

    fast.assign(m.size(), 7.0F);
    slow.resize(m.size());
    expand_product(p, q, c.columns, fast);
    expand_product_reference(p, q, c.columns, slow);
    expect_near(fast, slow, 1e-4);

    std::vector<float> rest = m;
    subtract_product(p, q, c.columns, rest);
    for (std::size_t i = 0; i < m.size(); ++i) ASSERT_NEAR(rest[i], m[i] - slow[i], 1e-4) << i;
  }
}

std::vector<double> gram(std::span<const float> vectors, std::size_t length) {
  const std::size_t count = vectors.size() / length;
  std::vector<double> products;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      double sum = 0.0;
      for (std::size_t i = 0; i < length; ++i) {
        sum += static_cast<double>(vectors[a * length + i]) * vectors[b * length + i];
      }
      products.push_back(sum);
    }
  }
  return products;
}

TEST(Orthogonalise, MakesVectorsOrthonormal) {
  for (const std::size_t length : {8U, 9U, 100U, 1003U}) {
    auto vectors = testing::normal_values(8 * length, length);
    // Nearly dependent: what is left after one pass would not be orthogonal.
    for (std::size_t i = 0; i < length; ++i) vectors[length + i] = vectors[i] + 1e-3F * vectors[length + i];
    orthogonalise(vectors, length);
    const auto products = gram(vectors, length);
    for (std::size_t i = 0; i < products.size(); ++i) {
      EXPECT_NEAR(products[i], i % 9 == 0 ? 1.0 : 0.0, 1e-6)
          << i;  // 8 vectors: every ninth is on the diagonal
    }
  }
}

TEST(Orthogonalise, SpansTheSame) {
  const auto before = testing::normal_values(3 * 50, 1);
  auto vectors = before;
  orthogonalise(vectors, 50);
  // P P^T v = v for every vector that was there.
  for (std::size_t v = 0; v < 3; ++v) {
    const std::span<const float> own(before.data() + v * 50, 50);
    std::vector<float> lengths(3);
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t i = 0; i < 50; ++i) lengths[j] += vectors[j * 50 + i] * own[i];
    }
    for (std::size_t i = 0; i < 50; ++i) {
      const float sum =
          lengths[0] * vectors[i] + lengths[1] * vectors[50 + i] + lengths[2] * vectors[100 + i];
      EXPECT_NEAR(sum, own[i], 1e-5);
    }
  }
}

TEST(Orthogonalise, LeavesNothingOfVectorsThatDependOnOthers) {
  auto vectors = testing::normal_values(5 * 20, 1);
  for (std::size_t i = 0; i < 20; ++i) {
    vectors[20 + i] = -3.0F * vectors[i];
    vectors[40 + i] = 0.0F;
    vectors[80 + i] = vectors[i] + vectors[60 + i];
  }
  orthogonalise(vectors, 20);
  const auto products = gram(vectors, 20);
  for (std::size_t v = 0; v < 5; ++v) EXPECT_NEAR(products[v * 6], v == 0 || v == 3 ? 1.0 : 0.0, 1e-6) << v;
}

// More vectors than there are dimensions.
TEST(Orthogonalise, StopsAtTheNumberOfDimensions) {
  auto vectors = testing::normal_values(std::size_t{6} * 4, 1);
  orthogonalise(vectors, 4);
  const auto products = gram(vectors, 4);
  for (std::size_t v = 0; v < 6; ++v) EXPECT_NEAR(products[v * 7], v < 4 ? 1.0 : 0.0, 1e-6) << v;
}

TEST(Orthogonalise, TakesTinyAndHugeVectors) {
  for (const float scale : {1e-30F, 1e30F}) {
    auto vectors = testing::normal_values(2 * 10, 1);
    for (float& value : vectors) value *= scale;
    orthogonalise(vectors, 10);
    const auto products = gram(vectors, 10);
    EXPECT_NEAR(products[0], 1.0, 1e-6);
    EXPECT_NEAR(products[1], 0.0, 1e-6);
    EXPECT_NEAR(products[3], 1.0, 1e-6);
  }
}

}  // namespace
}  // namespace dtrain::kernels
