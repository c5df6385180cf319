#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/output_file.hpp"
#include "report/writer.hpp"
#include "sample_results.hpp"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;

std::string html_of(const Result& result) { return writers().at("html").value->render(result); }

TEST(Html, AsksTheNetworkForNothing) {
  for (const auto& result : {scaling_result(), one_point_result(), empty_result(), hostile_result()}) {
    const std::string html = html_of(result);
    EXPECT_EQ(html.find("src=\"http"), std::string::npos);
    EXPECT_EQ(html.find("href="), std::string::npos);
    EXPECT_EQ(html.find("<link"), std::string::npos);
    EXPECT_EQ(html.find("@import"), std::string::npos);
    EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
    EXPECT_NE(html.find("Chart.js v3"), std::string::npos);
  }
}

TEST(Html, EscapesEveryNameFromOutside) {
  const std::string html = html_of(hostile_result());
  EXPECT_EQ(html.find("<script>window.hacked"), std::string::npos);
  EXPECT_EQ(html.find("<img src=x"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;window.hacked=1"), std::string::npos);
  EXPECT_NE(html.find("\\u003c/script>"), std::string::npos);
}

TEST(Html, LeavesNoPlaceholder) {
  const std::string html = html_of(scaling_result());
  EXPECT_EQ(html.find("{{title"), std::string::npos);
  EXPECT_EQ(html.find("{{data"), std::string::npos);
}

TEST(Html, SaysAtTheTopWhatIsWrong) {
  EXPECT_NE(
      html_of(simulated_result()).find("role=\"alert\">Simulated: mirrored-2 - 2 replicas share 1 core"),
      std::string::npos);
  EXPECT_NE(html_of(empty_result()).find("role=\"alert\">Incomplete"), std::string::npos);
  EXPECT_NE(html_of(scaling_result()).find("role=\"alert\">Unstable: mirrored-2"), std::string::npos);
  EXPECT_EQ(html_of(one_point_result()).find("role=\"alert\""), std::string::npos);
}

// Opens the report in headless Chromium and checks what the page says of itself.
class HtmlInBrowser : public testing::Test {
 protected:
  void open(const std::string& name, const Result& result, int charts) {
    if (std::system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "chromium is not installed";
    if (std::system("command -v python3 >/dev/null 2>&1") != 0) GTEST_SKIP() << "python3 is not installed";
    const fs::path folder = fs::temp_directory_path() / fmt::format("dtrain-html-{}-{}", name, ::getpid());
    fs::create_directories(folder);
    write_atomically(folder / "report.html", html_of(result));
    const std::string command = fmt::format("python3 '{}/browser_check.py' '{}/report.html' {} 2>&1",
                                            DTRAIN_REPORT_TESTS, folder.string(), charts);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    fs::remove_all(folder);
  }
};

TEST_F(HtmlInBrowser, DrawsOnePoint) { open("one", one_point_result(), 4); }
TEST_F(HtmlInBrowser, OpensWithoutAnyPoint) { open("empty", empty_result(), 0); }
TEST_F(HtmlInBrowser, DrawsEveryChartAndShowsHostileNamesAsText) { open("hostile", hostile_result(), 7); }

}  // namespace
}  // namespace dtrain::report
