#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.hpp"
#include "report/files.hpp"
#include "sample_results.hpp"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Files : public testing::Test {
 protected:
  ~Files() override { fs::remove_all(folder_); }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.insert(entry.path().filename());
    return found;
  }
  static ErrorCategory category_of(const std::function<void()>& work, const std::string& culprit) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(culprit));
      return error.category();
    }
    ADD_FAILURE() << "no error";
    return ErrorCategory::run;
  }
  fs::path folder_ = fs::temp_directory_path() / fmt::format("dtrain-files-{}", ::getpid());
};

TEST_F(Files, WritesEachFormatOnceUnderItsFixedName) {
  open_outputs(folder_ / "a" / "b", {"json"});
  open_outputs(folder_, default_formats());
  const auto written =
      write_outputs(folder_, {"json", "md", "markdown", "csv", "console", "html", "json"}, scaling_result());
  EXPECT_EQ(written, (std::vector{folder_ / "result.json", folder_ / "result.md", folder_ / "result.csv",
                                  folder_ / "report.html"}));
  EXPECT_EQ(names(), (std::set<std::string>{"a", "result.json", "result.md", "result.csv", "report.html"}));
  EXPECT_EQ(read_file(folder_ / "result.json"), to_json(scaling_result()));
}

TEST_F(Files, LeavesEverythingElseAlone) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "notes.txt") << "mine";
  std::ofstream(folder_ / "result.csv") << "older";
  open_outputs(folder_, {"json", "csv"});
  EXPECT_EQ(read_file(folder_ / "result.csv"), "older");
  write_outputs(folder_, {"json"}, one_point_result());
  EXPECT_EQ(names(), (std::set<std::string>{"notes.txt", "result.csv", "result.json"}));
  EXPECT_EQ(read_file(folder_ / "notes.txt"), "mine");
}

TEST_F(Files, RefusesBeforeAnyWorkWhatCannotBeWritten) {
  fs::create_directories(folder_ / "result.json");
  EXPECT_EQ(category_of([&] { open_outputs(folder_, {"json"}); }, "result.json: is a folder"),
            ErrorCategory::environment);
  open_outputs(folder_, {"csv"});
  std::ofstream(folder_ / "file") << "x";
  EXPECT_EQ(category_of([&] { open_outputs(folder_ / "file", {"json"}); }, "file"),
            ErrorCategory::environment);
  EXPECT_EQ(category_of([&] { open_outputs(folder_ / "file" / "below", {"json"}); }, "below"),
            ErrorCategory::environment);
  EXPECT_EQ(category_of([&] { open_outputs("/proc/dtrain", {"json"}); }, "/proc/dtrain"),
            ErrorCategory::environment);
  EXPECT_EQ(category_of([&] { open_outputs(folder_, {"jsn"}); }, "jsn"), ErrorCategory::usage);
}

TEST_F(Files, KeepsEveryCompleteResultOnceUnderANameOfItsOwn) {
  const Result first = scaling_result();
  const auto path = keep_in_history(folder_, first);
  EXPECT_EQ(path.parent_path(), folder_ / "history");
  EXPECT_THAT(path.filename().string(), testing::MatchesRegex("2024-05-06T070809Z-[0-9a-f]{8}.json"));
  EXPECT_EQ(read_file(path), to_json(first));
  EXPECT_EQ(keep_in_history(folder_, first), path);

  Result second = first;  // of the same second
  second.options.batch_size = 32;
  const auto other = keep_in_history(folder_, second);
  EXPECT_NE(other, path);
  EXPECT_EQ(read_file(path), to_json(first));
  EXPECT_EQ(read_file(other), to_json(second));

  Result cut = first;
  cut.samples.complete = false;
  EXPECT_TRUE(keep_in_history(folder_, cut).empty());
  const fs::directory_iterator kept(folder_ / "history");
  EXPECT_EQ(std::distance(begin(kept), end(kept)), 2);

  Result odd = first;
  odd.created = "../../x:/y";
  EXPECT_EQ(keep_in_history(folder_, odd).parent_path(), folder_ / "history");
}

TEST_F(Files, NeedsNoFolderForTheConsoleAlone) {
  open_outputs(folder_, {"console"});
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_TRUE(output_paths(folder_, {"console"}).empty());
}

}  // namespace
}  // namespace dtrain::report
