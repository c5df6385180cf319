#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/output_file.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "history/tables.hpp"
#include "history/writers.hpp"
#include "sample_results.hpp"

namespace dtrain::history {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// Twelve days, slower by a tenth from the seventh on; one of them unsteady; and a peer that did other work.
History sample_history() {
  Collection collection;
  for (int day = 1; day <= 12; ++day) {
    report::Result r = report::scaling_result();
    r.created = fmt::format("2024-05-{:02}T07:08:09Z", day);
    r.build.commit = fmt::format("commit{:02}", day);
    Random random(mix(5, static_cast<std::uint64_t>(day)));
    for (auto& run : r.samples.runs) {
      const double noise = 1.0 + 0.004 * random.normal();
      for (auto& round : run.rounds) round.seconds *= noise * (day < 7 ? 1.0 : 1.0 / 0.9);
    }
    if (day == 4) r.samples.runs[3].noise.foreign_load = 2.0;
    collection.sources.push_back({fmt::format("{}.json", day), r});
  }
  report::Result peer = collection.sources[0].result;
  peer.build.version = "torch 2.1.0";
  peer.model.parameters = 7;
  collection.sources.push_back({"peer.json", peer});
  collection.skipped = {"other.json (no result)"};
  return make_history(std::move(collection));
}

// Names from outside that try to be markup, to end a script or to drive the terminal.
History hostile_history() {
  report::Result r = report::hostile_result();
  r.samples.complete = true;
  r.build.commit = r.command;
  Collection collection;
  collection.sources.push_back({r.command, r});
  r.options.optimizer = r.command;
  collection.sources.push_back({r.command, r});
  collection.skipped = {r.command};
  return make_history(std::move(collection));
}

TEST(HistoryText, FollowsEachConfigurationAndSaysWhatChanged) {
  const std::string text = to_plain_text(sample_history());
  EXPECT_THAT(text, HasSubstr("History: 13 results, 4 configurations on 1 machine\n"));
  EXPECT_THAT(text, HasSubstr("History on Example 9000 (5f0c2a91)"));
  EXPECT_THAT(text, Not(HasSubstr("2024-05-02 07:08"))) << "the last ten are shown";
  EXPECT_THAT(text, HasSubstr("2024-05-03 07:08"));
  EXPECT_THAT(text, HasSubstr("\n  2024-05-06 07:08  commit06"));
  EXPECT_THAT(text, HasSubstr("\n> 2024-05-07 07:08  commit07"));
  EXPECT_THAT(text, HasSubstr("- mirrored-4: -"));
  EXPECT_THAT(text, HasSubstr("Other tools, refused\n  - peer.json (torch, "));
  EXPECT_THAT(text, HasSubstr("Left out of the history\n  - skipped other.json (no result)"));
}

TEST(HistoryText, ShowsNoControlCharacters) {
  EXPECT_EQ(to_plain_text(hostile_history()).find('\x1b'), std::string::npos);
}

TEST(HistoryTable, HasARowAPointAndMarksTheChange) {
  const History history = sample_history();
  const auto table = points_table(history.machines[0], all_points);
  ASSERT_EQ(table.rows.size(), 48U);
  for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size());
  const auto& seventh = table.rows[36 + 6];
  EXPECT_EQ(seventh[0], "mirrored-4");
  EXPECT_EQ(seventh[1], "2024-05-07 07:08");
  EXPECT_EQ(seventh[2], "commit07");
  EXPECT_THAT(seventh[7], HasSubstr(" % ["));
  EXPECT_EQ(table.rows[36 + 3][6], "NO");
  EXPECT_EQ(table.rows[36 + 5][7], "");
  EXPECT_EQ(points_table(history.machines[0].series[0], 5).rows.size(), 5U);
}

TEST(HistoryMarkdown, EscapesNamesFromOutside) {
  const std::string text = to_markdown(hostile_history());
  EXPECT_EQ(text.find('<'), std::string::npos);
  for (const auto& line : split(text, '\n')) {
    if (!line.starts_with("| ")) continue;
    EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 9) << line;
  }
}

TEST(HistoryJson, SaysWhatIsDocumented) {
  const json root = json::parse(to_json(sample_history()));
  EXPECT_EQ(root["schema"], "dtrain.history/1");
  EXPECT_EQ(root["results"], 13);
  const json& series = root["machines"][0]["series"][3];
  EXPECT_EQ(series["label"], "mirrored-4");
  EXPECT_EQ(series["work"]["global batch"], "256");
  EXPECT_EQ(series["points"].size(), 12U);
  EXPECT_EQ(series["points"][3]["stable"], false);
  EXPECT_EQ(series["changes_of"], "images_per_second_normalised");
  const json& change = series["changes"].at(0);
  EXPECT_EQ(change["first_point"], 6);
  EXPECT_EQ(change["after_commit"], "commit06");
  EXPECT_EQ(change["before_commit"], "commit07");
  EXPECT_NEAR(change["percent"], -10.0, 1.0);
  EXPECT_LT(change["percent_low"], change["percent"]);
  EXPECT_NEAR(change["percent_as_measured"], -10.0, 1.0);
  EXPECT_TRUE(root["machines"][0]["series"][0]["points"][0]["efficiency"].is_null());
  EXPECT_FALSE(root["machines"][0]["series"][0]["points"][0]["efficiency_reason"].get<std::string>().empty());
}

TEST(HistoryCsv, HasARowAPointWithAsManyCellsAsTheHead) {
  const auto lines = split(to_csv(sample_history()), '\n');
  ASSERT_EQ(lines.size(), 1U + 48U + 1U);
  const auto commas = std::count(lines[0].begin(), lines[0].end(), ',');
  for (std::size_t i = 1; i <= 48; ++i) EXPECT_EQ(std::count(lines[i].begin(), lines[i].end(), ','), commas);
  EXPECT_THAT(lines[1], testing::StartsWith("5f0c2a91,dtrain,plain,1,2024-05-01T07:08:09Z,commit01,"));
  EXPECT_THAT(lines[1], testing::EndsWith(",1.json\r"));
}

TEST(HistoryHtml, AsksTheNetworkForNothingAndEscapesNames) {
  for (const auto& html : {to_html(hostile_history()),
                           report::to_html(report::hostile_result(), html_part(hostile_history()))}) {
    EXPECT_EQ(html.find("src=\"http"), std::string::npos);
    EXPECT_EQ(html.find("href="), std::string::npos);
    EXPECT_EQ(html.find("<script>window.hacked"), std::string::npos);
    EXPECT_EQ(html.find("<img src=x"), std::string::npos);
    EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
    EXPECT_EQ(html.find("{{"), html.find("{{\"")) << "a placeholder was left";
  }
}

class HistoryInBrowser : public testing::Test {
 protected:
  static void open(const std::string& html, int charts, int makers) {
    if (std::system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "chromium is not installed";
    if (std::system("command -v python3 >/dev/null 2>&1") != 0) GTEST_SKIP() << "python3 is not installed";
    const fs::path file =
        fs::temp_directory_path() / fmt::format("dtrain-history-{}-{}.html", ::getpid(), charts);
    write_atomically(file, html);
    const std::string command = fmt::format("python3 '{}/../report/browser_check.py' '{}' {} {} 2>&1",
                                            DTRAIN_HISTORY_TESTS, file.string(), charts, makers);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    fs::remove(file);
  }
};

TEST_F(HistoryInBrowser, DrawsThroughputAndEfficiency) { open(to_html(sample_history()), 2, 2); }
TEST_F(HistoryInBrowser, DrawsBelowAResultToo) {
  open(report::to_html(report::hostile_result(), html_part(hostile_history())), 9, 9);
}

}  // namespace
}  // namespace dtrain::history
