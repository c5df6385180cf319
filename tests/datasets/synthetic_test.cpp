#include "datasets/synthetic.hpp"

#include <array>
#include <numeric>
#include <set>
#include <thread>

#include "base/hash.hpp"
#include "fixtures.hpp"

namespace dtrain::datasets {
namespace {

using Image = std::array<std::uint8_t, pixels_per_image>;

Image draw(std::uint64_t seed, Split split, std::size_t index) {
  Image image = {};
  draw_image(seed, split, index, image);
  return image;
}

TEST(Synthetic, ImagesDependOnSeedSplitAndIndexAlone) {
  const Image image = draw(1, Split::train, 5);
  draw(2, Split::test, 9);
  EXPECT_EQ(image, draw(1, Split::train, 5));
  EXPECT_NE(image, draw(2, Split::train, 5));
  EXPECT_NE(image, draw(1, Split::test, 5));
  EXPECT_NE(image, draw(1, Split::train, 6));
}

// The bytes must be the same on every machine and in every build, or results with one seed could not be
// compared.
TEST(Synthetic, BytesNeverChange) {
  Hash hash;
  for (std::size_t i = 0; i < 200; ++i) hash.add(std::span<const std::uint8_t>(draw(0, Split::train, i)));
  EXPECT_EQ(hash.hex(), "19005891842fa5f6");
}

TEST(Synthetic, EveryTenImagesHoldEveryClass) {
  std::set<std::vector<int>> orders;
  for (std::size_t block = 0; block < 50; ++block) {
    std::vector<int> labels;
    for (std::size_t i = 0; i < 10; ++i) labels.push_back(synthetic_label(3, Split::train, block * 10 + i));
    orders.insert(labels);
    std::sort(labels.begin(), labels.end());
    EXPECT_EQ(labels, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  EXPECT_EQ(orders.size(), 50U);
}

// A line through the mean colours of an image must not find its class: chance is 0.1, shape and colour both
// matter.
TEST(Synthetic, MeanColourDoesNotTellTheClass) {
  constexpr std::size_t count = 2000;
  std::vector<std::array<double, 3>> means(2 * count);
  std::array<std::array<double, 3>, class_count> centres = {};
  for (std::size_t i = 0; i < 2 * count; ++i) {
    const Image image = draw(4, Split::train, i);
    for (std::size_t c = 0; c < 3; ++c) {
      means[i][c] = std::accumulate(image.begin() + static_cast<std::ptrdiff_t>(1024 * c),
                                    image.begin() + static_cast<std::ptrdiff_t>(1024 * (c + 1)), 0.0);
      if (i < count) centres[synthetic_label(4, Split::train, i)][c] += means[i][c] * class_count / count;
    }
  }
  int right = 0;
  for (std::size_t i = count; i < 2 * count; ++i) {
    const auto distance = [&](int label) {
      double sum = 0.0;
      for (std::size_t c = 0; c < 3; ++c)
        sum += (means[i][c] - centres[label][c]) * (means[i][c] - centres[label][c]);
      return sum;
    };
    int best = 0;
    for (int label = 1; label < class_count; ++label) best = distance(label) < distance(best) ? label : best;
    right += best == synthetic_label(4, Split::train, i) ? 1 : 0;
  }
  EXPECT_LT(right, 0.25 * count);
}

TEST(Synthetic, DatasetDrawsTheSameImages) {
  const auto dataset = make_synthetic({.split = Split::test, .size = 100, .distinct = 100, .seed = 6});
  EXPECT_EQ(dataset->name(), "synthetic");
  ASSERT_EQ(dataset->size(), 100U);
  for (const std::size_t i : {99, 0, 50, 99}) {
    EXPECT_TRUE(std::ranges::equal(dataset->pixels(i), draw(6, Split::test, i)));
    EXPECT_EQ(dataset->label(i), synthetic_label(6, Split::test, i));
  }
}

TEST(Synthetic, DatasetRepeatsItsDistinctImages) {
  const auto dataset = make_synthetic({.size = 25, .distinct = 10});
  EXPECT_EQ(dataset->size(), 25U);
  EXPECT_EQ(dataset->pixels(23).data(), dataset->pixels(3).data());
  EXPECT_EQ(dataset->label(23), dataset->label(3));
}

TEST(Synthetic, ManyThreadsSeeTheSameImages) {
  const auto dataset = make_synthetic({.size = 300});
  std::vector<std::thread> threads;
  std::array<std::string, 4> hashes;
  for (auto& hash : hashes) {
    threads.emplace_back([&] {
      Hash seen;
      for (std::size_t i = 0; i < dataset->size(); ++i)
        seen.add(std::span<const std::uint8_t>(dataset->pixels(i)));
      hash = seen.hex();
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& hash : hashes) EXPECT_EQ(hash, hashes[0]);
}

TEST(Synthetic, SeedsGiveDifferentChecksums) {
  EXPECT_EQ(make_synthetic({.size = 50, .seed = 1})->checksum(),
            make_synthetic({.size = 50, .seed = 1})->checksum());
  EXPECT_NE(make_synthetic({.size = 50, .seed = 1})->checksum(),
            make_synthetic({.size = 50, .seed = 2})->checksum());
  EXPECT_NE(make_synthetic({.size = 50, .seed = 1})->checksum(),
            make_synthetic({.size = 40, .seed = 1})->checksum());
}

TEST(Synthetic, NoImagesIsAnError) {
  EXPECT_EQ(error_of([] { make_synthetic({.size = 0}); }).category(), ErrorCategory::usage);
}

}  // namespace
}  // namespace dtrain::datasets
