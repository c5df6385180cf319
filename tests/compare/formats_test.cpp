#include "compare/formats.hpp"

#include <gmock/gmock.h>

#include "compare/writers.hpp"
#include "synthetic.hpp"

namespace dtrain::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

const Bench calm{.noise = {.scatter = 0.005, .between_runs = 0.0}};

Comparison regression() {
  Bench slower = calm;
  slower.slower = 0.3;
  return compare({"base", {make_result(1, calm)}}, {"new", {make_result(2, slower)}}, {});
}

Comparison refused() {
  auto next = make_result(2, calm);
  next.model.parameters = 7;
  return compare({"base", {make_result(1, calm)}}, {"new", {next}}, {});
}

TEST(Formats, ConsoleSaysVerdictAndNumbers) {
  const std::string text = render_console(regression(), {}, false);
  EXPECT_THAT(text, HasSubstr("mirrored-2"));
  EXPECT_THAT(text, HasSubstr("worse"));
  EXPECT_THAT(text, HasSubstr("Worse: images_per_second of "));
  EXPECT_THAT(text, Not(HasSubstr("degrees of freedom")));
  EXPECT_THAT(render_console(regression(), {}, true), HasSubstr("degrees of freedom"));
}

TEST(Formats, GithubAnnotatesEachRegression) {
  const std::string text = to_github(regression());
  EXPECT_THAT(text, HasSubstr("::error title=dtrain::images_per_second of plain: worse, -29.9 %25 ["));
  EXPECT_THAT(text, Not(HasSubstr(" % "))) << "a percent sign begins an escape there";
  EXPECT_THAT(to_github(refused()), HasSubstr("::warning title=dtrain::Cannot compare: "));
}

TEST(Formats, JunitCountsWhatItHolds) {
  const std::string text = to_junit(regression());
  EXPECT_THAT(text, HasSubstr("tests=\"3\" failures=\"3\" errors=\"0\""));
  EXPECT_THAT(text, HasSubstr("<failure type=\"regression\""));
  const std::string none = to_junit(refused());
  EXPECT_THAT(none, HasSubstr("tests=\"1\" failures=\"0\" errors=\"1\""));
  EXPECT_THAT(none, HasSubstr("model.parameters"));
}

TEST(Formats, WhatComesFromOutsideIsEscaped) {
  auto next = make_result(2, calm);
  next.samples.runs[0].plan.id = "<b>\"&\x01";
  auto base = next;
  base.build.commit = "|`<script>";
  const auto comparison = compare({"a\nb<&>", {base}}, {"new", {next}}, {});
  EXPECT_THAT(to_junit(comparison), HasSubstr("classname=\"&lt;b&gt;&quot;&amp; \""));
  EXPECT_THAT(to_markdown(comparison), Not(HasSubstr("<script>")));
  EXPECT_THAT(to_markdown(comparison), Not(HasSubstr("<b>")));
  EXPECT_THAT(render_console(comparison, {}, false), Not(HasSubstr("\x01")));
}

TEST(Formats, JunitHoldsOnlyWhatXmlCanHold) {
  auto next = make_result(2, calm);
  next.samples.complete = false;
  // Cut short, overlong, a surrogate, no character at all; and two that are good.
  const std::string name =
      "\xff|\xe2\x82|\xc0\xaf|\xed\xa0\x80|\xef\xbf\xbe|\xef\xbf\xbf|\xc3\xa9|\xf0\x9f\x98\x80";
  const std::string text = to_junit(compare({"base", {make_result(1, calm)}}, {name, {next}}, {}));
  const std::string unknown = "\xef\xbf\xbd";
  EXPECT_THAT(text, testing::ContainsRegex("Cannot compare: (" + unknown + ")+[|](" + unknown + ")+[|](" +
                                           unknown + ")+[|](" + unknown + ")+[|]" + unknown + "[|]" +
                                           unknown + "[|]\xc3\xa9[|]\xf0\x9f\x98\x80 is incomplete"));
}

TEST(Formats, JsonHasNoNumbersThatAreNone) {
  auto few = make_result(2, calm);
  for (auto& run : few.samples.runs) run.rounds.resize(1);
  const std::string text = to_json(compare({"base", {make_result(1, calm)}}, {"new", {few}}, {}));
  EXPECT_THAT(text, HasSubstr("\"schema\": \"dtrain.comparison/1\""));
  EXPECT_THAT(text, HasSubstr("\"change\": null"));
  EXPECT_THAT(text, HasSubstr("\"exit_code\": 6"));
  EXPECT_THAT(text, Not(HasSubstr("inf")));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(Formats, AreKnownByName) {
  EXPECT_THAT(writers().names(), testing::ElementsAre("console", "markdown", "json", "junit", "github"));
  EXPECT_EQ(writers().at("junit").value->file_name(), "comparison.xml");
  EXPECT_EQ(writers().at("md").value->file_name(), "comparison.md");
  EXPECT_THROW(writers().at("junt"), Error);
}

}  // namespace
}  // namespace dtrain::compare
