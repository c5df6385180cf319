#include "predict/writers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "synthetic.hpp"

namespace dtrain::predict {
namespace {

using testing::HasSubstr;
using testing::Not;

Prediction example() {
  return predict(make_result({.step_noise = 0.02, .round_noise = 0.02}, {1, 2, 4}), ask({8, 512}));
}

TEST(Writers, JsonHoldsEverything) {
  const Prediction prediction = example();
  const auto json = nlohmann::json::parse(to_json(prediction));
  EXPECT_EQ(json["schema"], "dtrain.prediction/1");
  EXPECT_TRUE(json["refusal"].is_null());
  EXPECT_EQ(json["source"]["strategy"], "multi-worker");
  ASSERT_EQ(json["predictions"].size(), 2U);
  const auto& eight = json["predictions"][0];
  EXPECT_EQ(eight["replicas"], 8);
  EXPECT_TRUE(eight["extrapolated"]);
  EXPECT_DOUBLE_EQ(eight["images_per_second"]["value"], prediction.estimates[0].images_per_second.value);
  EXPECT_DOUBLE_EQ(eight["parts"]["communication_seconds"], prediction.estimates[0].parts.communication);
  EXPECT_EQ(json["measured"].size(), 3U);
  EXPECT_EQ(json["collective"]["law"], prediction.collective.law);
  EXPECT_TRUE(json["collective"]["within_worker"].is_null());
  EXPECT_EQ(json["curve"].size(), prediction.curve.size());
  EXPECT_EQ(json["limits"].size(), 3U);
  EXPECT_THAT(to_json(prediction), Not(HasSubstr("nan")));
}

TEST(Writers, ConsoleSaysExtrapolatedAndTheErrors) {
  const std::string text = to_console(example(), {});
  for (const char* part :
       {"extrapolated", "far extrapolated: 128 times", "images/s", "What limits first: communication",
        "left out and predicted from the others", "--compress bf16"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Writers, AMeasuredNHasWhatWasMeasured) {
  const Prediction prediction = predict(make_result({.round_noise = 0.1}, {1, 2, 4}), ask({4, 8}));
  const auto json = nlohmann::json::parse(to_json(prediction))["predictions"];
  EXPECT_EQ(json[0]["how"], "at a measured N");
  EXPECT_DOUBLE_EQ(json[0]["measured_images_per_second"], prediction.checks.back().images_per_second);
  EXPECT_DOUBLE_EQ(json[0]["measured_step_seconds"], prediction.checks.back().step);
  EXPECT_TRUE(json[1]["measured_images_per_second"].is_null());
  EXPECT_THAT(to_markdown(prediction), HasSubstr("at a measured N ("));
}

TEST(Writers, MarkdownHasTheSameTables) {
  const std::string text = to_markdown(example());
  EXPECT_THAT(text, HasSubstr("### Prediction"));
  EXPECT_THAT(text, HasSubstr("| 512 |"));
  EXPECT_THAT(text, HasSubstr("far extrapolated"));
}

TEST(Writers, HtmlIsOneOfflineFileWithTheWholePrediction) {
  const std::string page = to_html(example());
  EXPECT_THAT(page, HasSubstr("<canvas id=\"rate\">"));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  const std::string open = "<script type=\"application/json\" id=\"prediction\">";
  const auto begin = page.find(open) + open.size();
  const auto json = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(json["predictions"].size(), 2U);
}

TEST(Writers, TextFromOutsideDoesNoHarm) {
  Prediction prediction = example();
  const std::string hostile = "</script><img src=x onerror=alert(1)>\x1b[31m";
  prediction.source.file = hostile;
  prediction.source.model = hostile;
  prediction.notes.push_back(hostile);
  EXPECT_THAT(to_html(prediction), Not(HasSubstr("<img")));
  EXPECT_THAT(to_console(prediction, {}), Not(HasSubstr("\x1b[31m")));
  EXPECT_THAT(to_markdown(prediction), Not(HasSubstr("<img")));
}

TEST(Writers, ARefusalIsOneLine) {
  const Prediction refused = predict(make_result({}, {1, 2}), ask({8}));
  const std::string text = to_console(refused, {});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, HasSubstr("No prediction: "));
  const auto json = nlohmann::json::parse(to_json(refused));
  EXPECT_EQ(json["refusal"], refused.refusal);
  EXPECT_FALSE(json.contains("predictions"));
  EXPECT_THAT(to_html(refused), HasSubstr("No prediction"));
  EXPECT_THAT(to_markdown(refused), HasSubstr("No prediction"));
}

}  // namespace
}  // namespace dtrain::predict
