#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "base/mapped_file.hpp"
#include "base/output_file.hpp"

namespace {

using namespace dtrain;
namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("dtrain_base_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

TEST_F(Files, AtomicWriteReplacesAndLeavesNothingElse) {
  write_atomically(folder_ / "a", "old");
  write_atomically(folder_ / "a", "new content");
  EXPECT_EQ(read(folder_ / "a"), "new content");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(Files, WriteIntoAFileAsFolderIsAnEnvironmentError) {
  write_atomically(folder_ / "a", "x");
  for (const fs::path& path : {folder_ / "a" / "b", fs::path("/proc/no/such/r.json")}) {
    try {
      write_atomically(path, "x");
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::environment);
      EXPECT_NE(std::string(error.what()).find(path.parent_path().string()), std::string::npos);
    }
  }
  EXPECT_THROW(require_writable_directory(folder_ / "a"), Error);
  EXPECT_THROW(require_writable_directory("/proc/dtrain"), Error);
}

TEST_F(Files, WritableDirectoryIsMadeAndLeftEmpty) {
  require_writable_directory(folder_ / "x" / "y");
  EXPECT_TRUE(fs::is_empty(folder_ / "x" / "y"));
}

TEST_F(Files, MappingGivesTheBytes) {
  write_atomically(folder_ / "a", std::string("\x00\x01\xff", 3));
  MappedFile file(folder_ / "a");
  ASSERT_EQ(file.bytes().size(), 3U);
  EXPECT_EQ(file.bytes()[2], 0xff);
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes()[1], 1);
}

TEST_F(Files, MappingNamesWhatIsWrong) {
  fs::create_directory_symlink(folder_ / "loop", folder_ / "loop");
  for (const fs::path& path : {folder_ / "missing", folder_, folder_ / "loop"}) {
    try {
      const MappedFile file(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::data);
      EXPECT_EQ(std::string(error.what()).find(path.string()), 0U);
    }
  }
}

TEST_F(Files, EmptyFileMapsToNothing) {
  write_atomically(folder_ / "a", "");
  EXPECT_TRUE(MappedFile(folder_ / "a").bytes().empty());
}

}  // namespace
