// StableHLO as text.

#include "backend/xla/writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace dtrain::backend::xla;
using ::testing::HasSubstr;

TEST(Type, IsWrittenAsInPrograms) {
  EXPECT_EQ((Type{Element::f32, {2, 3}}).text(), "tensor<2x3xf32>");
  EXPECT_EQ((Type{Element::u8, {}}).text(), "tensor<ui8>");
}

TEST(Writer, SpreadsAScalarOverTheOtherOperand) {
  Writer writer(true);
  const Value sum = writer.add(writer.iota({Element::f32, {4}}, 0), writer.scalar(2.0));
  EXPECT_EQ(sum.type.dims, Dims({4}));
  EXPECT_THAT(writer.body(), HasSubstr("dims = [] : (tensor<f32>) -> tensor<4xf32>"));
}

TEST(Writer, RefusesOperandsThatDiffer) {
  Writer writer(true);
  const Value four = writer.iota({Element::f32, {4}}, 0);
  EXPECT_THROW(writer.add(four, writer.iota({Element::s32, {4}}, 0)), std::logic_error);
}

TEST(Writer, LeavesOutWhatChangesNothing) {
  Writer writer(true);
  const Value four = writer.iota({Element::f32, {4}}, 0);
  EXPECT_EQ(writer.reshape(four, {4}).name, four.name);
  EXPECT_EQ(writer.convert(four, Element::f32).name, four.name);
  EXPECT_EQ(writer.pad(four, {0}, {0}).name, four.name);
}

TEST(Writer, AsksForAllBitsOfProductsOnlyWhereTheyAreExact) {
  for (const bool exact : {true, false}) {
    Writer writer(exact);
    const Value square = writer.iota({Element::f32, {4, 4}}, 0);
    writer.dot(square, square, 1, 0);
    EXPECT_EQ(writer.body().find("HIGHEST") != std::string::npos, exact);
  }
}

TEST(Writer, SumsAllValuesInOneExchange) {
  Writer writer(true);
  const Value a = writer.iota({Element::f32, {2, 3}}, 0);
  const auto sums = writer.all_reduce({a, writer.scalar(1.0)}, 3);
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0].type, a.type);
  EXPECT_TRUE(sums[1].type.dims.empty());
  EXPECT_THAT(writer.body(), HasSubstr("dense<[[0, 1, 2]]> : tensor<1x3xi64>"));
  EXPECT_EQ(writer.body().find("all_reduce"), writer.body().rfind("all_reduce"));
}

}  // namespace
