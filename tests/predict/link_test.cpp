#include "predict/link.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace dtrain::predict {
namespace {

TEST(Link, PresetsAreBytesAndSeconds) {
  const Link hdr = parse_link("ib-hdr", "--link");
  EXPECT_NEAR(1.0 / hdr.beta, 24e9, 0.1e9);
  EXPECT_GT(hdr.doubt, 0.0);
  EXPECT_NEAR(1.0 / parse_link("10gbe", "--link").beta, 1.18e9, 0.01e9);
  EXPECT_GT(parse_link("10gbe", "--link").alpha, hdr.alpha);
  EXPECT_NEAR(1.0 / parse_link("nvlink4", "--link").beta, 360e9, 1e9);
  for (const auto& entry : links().entries()) {
    EXPECT_FALSE(entry.value.source.empty()) << entry.name;
    EXPECT_EQ(entry.value.name, entry.name);
  }
}

TEST(Link, MayBeTypedAsLatencyAndBandwidth) {
  const Link link = parse_link("5us,12.5GB/s", "--link");
  EXPECT_DOUBLE_EQ(link.alpha, 5e-6);
  EXPECT_DOUBLE_EQ(link.beta, 1.0 / 12.5e9);
  EXPECT_EQ(link.doubt, 0.0);
  EXPECT_DOUBLE_EQ(parse_link("0.2ms,100Mbit/s", "--link").beta, 8.0 / 100e6);
  EXPECT_DOUBLE_EQ(parse_link("0,1GB/s", "--link").alpha, 0.0);
  EXPECT_DOUBLE_EQ(parse_link("700ns,3KB/s", "--link").alpha, 7e-7);
}

TEST(Link, MayBeWrittenWithCapitalsAndSpaces) {
  EXPECT_EQ(parse_link("IB-HDR", "--link").name, "ib-hdr");
  EXPECT_EQ(parse_link(" 10GbE ", "--link").name, "10gbe");
  EXPECT_DOUBLE_EQ(parse_link("5us, 12.5GB/s", "--link").alpha, 5e-6);
  EXPECT_DOUBLE_EQ(parse_link(" 5us ,  12.5GB/s ", "--link").beta, 1.0 / 12.5e9);
}

TEST(Link, RefusesOthersAndNamesTheFlag) {
  for (const char* text :
       {"", "ib", "5us", "5us,", ",1GB/s", "5us,1GB", "5us,12", "-1us,1GB/s", "5us,-1GB/s", "5us,0GB/s",
        "nan,1GB/s", "5us,infGB/s", "5us,1GB/s,2", "1h,1GB/s", "5 us,1GB/s"}) {
    try {
      parse_link(text, "--link");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::usage);
      EXPECT_THAT(error.what(), testing::HasSubstr("--link: '" + std::string(text) + "'"));
      EXPECT_THAT(error.advice(), testing::HasSubstr("ib-hdr"));
    }
  }
}

TEST(Link, OffersTheNearestName) {
  try {
    parse_link("ib-hrd", "--link");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.advice(), testing::HasSubstr("did you mean 'ib-hdr'"));
  }
}

}  // namespace
}  // namespace dtrain::predict
