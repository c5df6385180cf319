#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "comm/compressor.hpp"

namespace dtrain::comm {
namespace {

using ::testing::HasSubstr;

TEST(Compressions, HaveOneSpelling) {
  EXPECT_EQ(parse_compression("none", "--compress"), "none");
  EXPECT_EQ(parse_compression("fp16", "--compress"), "fp16");
  EXPECT_EQ(parse_compression("bf16", "--compress"), "bf16");
  EXPECT_EQ(parse_compression("topk:0.010", "--compress"), "topk:0.01");
  EXPECT_EQ(parse_compression("topk:1%", "--compress"), "topk:0.01");
  EXPECT_EQ(parse_compression("topk:1", "--compress"), "topk:1");
  EXPECT_EQ(parse_compression("powersgd:04", "--compress"), "powersgd:4");
}

TEST(Compressions, OfNothingAreNull) {
  EXPECT_EQ(make_compressor("none", 0), nullptr);
  for (const char* text : {"fp16", "bf16", "topk:0.5", "topk:1e-05", "powersgd:1"}) {
    EXPECT_NE(make_compressor(text, 0), nullptr) << text;
  }
}

struct Bad {
  const char* text;
  const char* what;
  const char* advice;
};

TEST(Compressions, RefuseWhatTheyCannotBe) {
  const Bad all[] = {
      {"fp8", "--compress: unknown compression 'fp8'", "did you mean 'fp16'? known: none, fp16, bf16, topk"},
      {"topK:0.1", "unknown compression 'topK'", "did you mean 'topk'?"},
      {"", "unknown compression ''", "known: none"},
      {"topk", "--compress: topk lacks its number", "topk:0.01"},
      {"topk:", "--compress: topk lacks its number", "topk:0.01"},
      {"topk:0", "--compress topk: '0' sends nothing", "topk:0.01"},
      {"topk:2", "--compress topk: '2' is more than 1", "did you mean 2%?"},
      {"topk:-0.1", "--compress topk: '-0.1'", "from 0 to 1"},
      {"topk:nan", "--compress topk: 'nan'", "0.9"},
      {"powersgd", "--compress: powersgd lacks its number", "powersgd:4"},
      {"powersgd:x", "--compress powersgd: 'x' is not a whole number", "from 1 to 256"},
      {"powersgd:0", "--compress powersgd: '0' is too small", "from 1 to 256"},
      {"powersgd:1.5", "--compress powersgd: '1.5' is not a whole number", "from 1 to 256"},
      {"fp16:2", "--compress: fp16 takes no number", "fp16"},
      {"none:", "--compress: none takes no number", "none"},
  };
  for (const Bad& bad : all) {
    try {
      parse_compression(bad.text, "--compress");
      ADD_FAILURE() << bad.text << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::usage) << bad.text;
      EXPECT_THAT(error.what(), HasSubstr(bad.what));
      EXPECT_THAT(error.advice(), HasSubstr(bad.advice)) << bad.text;
    }
    EXPECT_THROW(make_compressor(bad.text, 0), Error) << bad.text;
  }
}

}  // namespace
}  // namespace dtrain::comm
