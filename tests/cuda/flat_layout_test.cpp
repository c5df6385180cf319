#include "backend/cuda/flat_layout.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "model/zoo.hpp"

namespace dtrain::backend::cuda {
namespace {

std::vector<float> counting(std::size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST(FlatLayout, ComesBackInCanonicalOrder) {
  for (const model::Model& model :
       {model::zoo().at("mlp").value(), model::zoo().at("cnn").value(), model::resnet9(8)}) {
    for (const int channels : {3, 4, 8}) {
      const FlatLayout layout(model, channels);
      const auto canonical = counting(model.parameter_count);
      std::vector<float> flat(layout.size(), -1.0F);
      std::vector<float> back(model.parameter_count);
      layout.to_flat(canonical, flat);
      layout.to_canonical(flat, back);
      EXPECT_EQ(back, canonical) << model.name;
    }
  }
}

TEST(FlatLayout, PutsChannelsClosestAndPadsThoseOfTheImageWithZeros) {
  const model::Model cnn = model::zoo().at("cnn").value();
  const FlatLayout layout(cnn, 4);
  const auto canonical = counting(cnn.parameter_count);
  std::vector<float> flat(layout.size(), -1.0F);
  layout.to_flat(canonical, flat);
  const FlatLayout::Entry& conv1 = layout.entries()[0];
  EXPECT_EQ(conv1.size(), 32U * 9U * 4U);
  const auto at = [&](std::size_t out, std::size_t position, std::size_t channel) {
    return flat[conv1.offset + (out * 9 + position) * 4 + channel];
  };
  EXPECT_EQ(at(0, 0, 0), canonical[0]);
  EXPECT_EQ(at(0, 0, 1), canonical[9]);
  EXPECT_EQ(at(0, 5, 2), canonical[2 * 9 + 5]);
  EXPECT_EQ(at(31, 8, 2), canonical[(31 * 3 + 2) * 9 + 8]);
  for (std::size_t position = 0; position < 9; ++position) EXPECT_EQ(at(7, position, 3), 0.0F);

  const FlatLayout::Entry* dense1 = layout.find(static_cast<int>(8), "_w");
  ASSERT_NE(dense1, nullptr);  // 64 outputs of 64 x 4 x 4
  EXPECT_EQ(dense1->positions, 16U);
  const std::size_t canonical_offset = cnn.parameters[6].offset;
  ASSERT_EQ(cnn.parameters[6].name, "dense1_w");
  // Output 1, row 2, column 3, channel 5.
  EXPECT_EQ(flat[dense1->offset + (1 * 16 + 2 * 4 + 3) * 64 + 5],
            canonical[canonical_offset + (1 * 64 + 5) * 16 + 2 * 4 + 3]);
}

TEST(FlatLayout, SlotsAreAlignedAndBetweenThemAreZeros) {
  const model::Model resnet = model::resnet9(8);
  const FlatLayout layout(resnet, 8);
  std::vector<float> flat(layout.size(), -1.0F);
  layout.to_flat(std::vector<float>(resnet.parameter_count, 1.0F), flat);
  std::size_t end = 0;
  for (const Slot& slot : layout.slots()) {
    EXPECT_EQ(slot.range.offset % 64, 0U);
    for (std::size_t i = end; i < slot.range.offset; ++i) ASSERT_EQ(flat[i], 0.0F);
    end = slot.range.offset + slot.range.size;
  }
  EXPECT_LE(end, layout.size());
  EXPECT_EQ(layout.size() % 64, 0U);
}

}  // namespace
}  // namespace dtrain::backend::cuda
