#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "datasets/find_files.hpp"
#include "fixtures.hpp"

namespace dtrain::datasets {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string message_of(const std::string& data) {
  const Error error = error_of([&] { open_cifar10(data, false, 0); });
  EXPECT_EQ(error.category(), ErrorCategory::data);
  EXPECT_FALSE(error.advice().empty());
  return error.what();
}

void expect_records(const Dataset& dataset, const std::string& bytes) {
  ASSERT_EQ(dataset.size() * record_bytes, bytes.size());
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    ASSERT_EQ(dataset.label(i), bytes[i * record_bytes]);
    ASSERT_EQ(std::memcmp(dataset.pixels(i).data(), bytes.data() + i * record_bytes + 1, pixels_per_image), 0)
        << i;
  }
}

class Files : public testing::Test {
 protected:
  std::string path(const std::string& name = "") const { return (directory_ / name).string(); }
  TemporaryDirectory directory_;
};

TEST_F(Files, DirectoryGivesAllFiveFilesInOrderAndTheTestFile) {
  write_batches(directory_.path(), 3);
  const Cifar10 data = open_cifar10(directory_.path().string(), false, 0);
  std::string all;
  for (int i = 1; i <= 5; ++i) all += make_records(3, i * 3);
  expect_records(*data.train, all);
  expect_records(*data.test, make_records(3, 7));
  EXPECT_FALSE(data.synthetic);
  EXPECT_EQ(data.train->name(), directory_.path().string());
  ASSERT_EQ(data.files.size(), 6U);
  EXPECT_EQ(data.files[4].path.filename(), "data_batch_5.bin");
  EXPECT_EQ(data.files[4].records, 3U);
  EXPECT_FALSE(data.files[4].test);
  EXPECT_TRUE(data.files[5].test);
}

TEST_F(Files, CachedAndMappedRecordsAreTheSame) {
  write_batches(directory_.path(), 4);
  const Cifar10 mapped = open_cifar10(path(), false, 0);
  const Cifar10 cached = open_cifar10(path(), true, 0);
  for (int twice = 0; twice < 2; ++twice) {
    for (std::size_t i = 0; i < mapped.train->size(); ++i) {
      ASSERT_TRUE(std::ranges::equal(mapped.train->pixels(i), cached.train->pixels(i)));
    }
  }
  EXPECT_EQ(mapped.train->checksum(), cached.train->checksum());
}

TEST_F(Files, CachedRecordsCanBeReadByManyThreads) {
  write_file(directory_ / "x.bin", make_records(200));
  const Cifar10 data = open_cifar10(path("x.bin"), true, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { expect_records(*data.train, make_records(200)); });
  for (auto& thread : threads) thread.join();
}

TEST_F(Files, FilesOfDifferentLength) {
  write_batches(directory_.path(), 2);
  write_file(directory_ / "data_batch_2.bin", make_records(7));
  write_file(directory_ / "data_batch_4.bin", make_records(1));
  const Cifar10 data = open_cifar10(path(), false, 0);
  expect_records(*data.train, make_records(2, 2) + make_records(7) + make_records(2, 6) + make_records(1) +
                                  make_records(2, 10));
  EXPECT_EQ(data.files[1].records, 7U);
}

TEST_F(Files, InnerDirectoryOfTheArchiveIsFound) {
  write_batches(directory_ / "cifar-10-batches-bin", 1);
  EXPECT_EQ(open_cifar10(path(), false, 0).train->size(), 5U);
}

TEST_F(Files, SingleFileHasNoTestSet) {
  write_file(directory_ / "anything", make_records(3));
  const Cifar10 data = open_cifar10(path("anything"), false, 0);
  EXPECT_EQ(data.train->size(), 3U);
  EXPECT_EQ(data.test, nullptr);
}

TEST_F(Files, GlobTakesMatchesInOrder) {
  write_batches(directory_.path(), 2);
  const Cifar10 data = open_cifar10(path("data_batch_[24].bin"), false, 0);
  expect_records(*data.train, make_records(2, 4) + make_records(2, 8));
  EXPECT_EQ(data.test, nullptr);
}

TEST_F(Files, GlobLeavesTheTestFileOut) {
  write_batches(directory_.path(), 2);
  const Cifar10 data = open_cifar10(path("*.bin"), false, 0);
  EXPECT_EQ(data.train->size(), 10U);
  EXPECT_THAT(data.note, HasSubstr("test file is left out"));
}

TEST_F(Files, GlobOfTheTestFileAloneTakesIt) {
  write_batches(directory_.path(), 2);
  EXPECT_EQ(open_cifar10(path("test_*"), false, 0).train->size(), 2U);
}

TEST_F(Files, GlobWithoutMatch) { EXPECT_THAT(message_of(path("*.bin")), HasSubstr("no file matches")); }

TEST_F(Files, FileWhoseNameLooksLikeAGlob) {
  write_file(directory_ / "a[1].bin", make_records(1));
  EXPECT_EQ(open_cifar10(path("a[1].bin"), false, 0).train->size(), 1U);
}

TEST_F(Files, MissingBatchIsNamed) {
  write_batches(directory_.path(), 1);
  fs::remove(directory_ / "data_batch_3.bin");
  EXPECT_THAT(message_of(path()), HasSubstr("data_batch_3.bin is missing"));
}

TEST_F(Files, AllThatIsMissingIsNamed) {
  write_batches(directory_.path(), 1);
  fs::remove(directory_ / "data_batch_5.bin");
  fs::remove(directory_ / "test_batch.bin");
  EXPECT_THAT(message_of(path()), HasSubstr("data_batch_5.bin, test_batch.bin are missing"));
}

TEST_F(Files, EmptyDirectory) { EXPECT_THAT(message_of(path()), HasSubstr("no CIFAR-10 files here")); }

TEST_F(Files, DirectoryOfThePythonVersion) {
  write_file(directory_ / "data_batch_1", "\x80\x02}");
  EXPECT_THAT(message_of(path()), HasSubstr("Python version"));
}

TEST_F(Files, DirectoryOfCifar100) {
  write_file(directory_ / "train.bin", "x");
  EXPECT_THAT(message_of(path()), HasSubstr("CIFAR-100"));
}

TEST_F(Files, DirectoryWithThePackedArchive) {
  write_file(directory_ / "cifar-10-binary.tar.gz", "x");
  EXPECT_THAT(message_of(path()), HasSubstr("cifar-10-binary.tar.gz, which is not unpacked"));
}

TEST_F(Files, NoSuchPath) {
  EXPECT_THAT(message_of(path("nowhere")), HasSubstr("nowhere: no such file or folder"));
}

TEST_F(Files, SymbolicLinkLoop) {
  fs::create_symlink("b", directory_ / "a");
  fs::create_symlink("a", directory_ / "b");
  EXPECT_THAT(message_of(path("a")), HasSubstr("loop"));
}

TEST_F(Files, SymbolicLinkLoopAmongTheBatches) {
  write_batches(directory_.path(), 1);
  fs::remove(directory_ / "data_batch_2.bin");
  fs::create_symlink("data_batch_2.bin", directory_ / "data_batch_2.bin");
  EXPECT_THAT(message_of(path()), testing::AllOf(HasSubstr("data_batch_2.bin"), HasSubstr("loop")));
}

TEST_F(Files, DanglingSymbolicLink) {
  fs::create_symlink("gone.bin", directory_ / "a");
  EXPECT_THAT(message_of(path("a")), HasSubstr("a symbolic link to gone.bin, which does not exist"));
}

TEST_F(Files, DirectoryInPlaceOfAFile) {
  write_batches(directory_.path(), 1);
  fs::remove(directory_ / "data_batch_2.bin");
  fs::create_directory(directory_ / "data_batch_2.bin");
  EXPECT_THAT(message_of(path()),
              testing::AllOf(HasSubstr("data_batch_2.bin"), HasSubstr("a folder, where a file")));
}

TEST_F(Files, PipeInPlaceOfAFile) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of(path("pipe")), HasSubstr("not a regular file"));
}

TEST_F(Files, UnreadableFile) {
  write_file(directory_ / "x.bin", make_records(1));
  fs::permissions(directory_.path(), fs::perms::all);
  fs::permissions(directory_ / "x.bin", fs::perms::none);
  const bool root = ::geteuid() == 0;
  if (root && ::seteuid(65534) != 0)
    GTEST_SKIP() << "root may read everything, and the user cannot be changed here";
  const std::string message = message_of(path("x.bin"));
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_THAT(message, HasSubstr("permission denied"));
}

TEST_F(Files, DamagedFileInADirectoryIsNamed) {
  write_batches(directory_.path(), 2);
  std::string records = make_records(2);
  records[record_bytes] = 99;
  write_file(directory_ / "data_batch_4.bin", records);
  EXPECT_THAT(message_of(path()),
              testing::AllOf(HasSubstr("data_batch_4.bin: record 1"), HasSubstr("label 99")));
}

TEST_F(Files, ChecksumDependsOnRecordsAndTheirOrderButNotOnFiles) {
  write_file(directory_ / "one.bin", make_records(4) + make_records(3, 4));
  write_file(directory_ / "two_1.bin", make_records(4));
  write_file(directory_ / "two_2.bin", make_records(3, 4));
  write_file(directory_ / "other.bin", make_records(3, 4) + make_records(4));
  std::string changed = make_records(4) + make_records(3, 4);
  changed.back() = static_cast<char>(changed.back() ^ 1);
  write_file(directory_ / "changed.bin", changed);
  const auto checksum = [&](const std::string& name) {
    return open_cifar10(path(name), false, 0).train->checksum();
  };
  EXPECT_EQ(checksum("one.bin").size(), 16U);
  EXPECT_EQ(checksum("one.bin"), checksum("two_*.bin"));
  EXPECT_NE(checksum("one.bin"), checksum("other.bin"));
  EXPECT_NE(checksum("one.bin"), checksum("changed.bin"));
}

TEST_F(Files, ClassNamesComeFromTheFileBesideTheBatches) {
  write_batches(directory_.path(), 1);
  EXPECT_EQ(open_cifar10(path(), false, 0).class_names[3], "cat");
  write_file(directory_ / "batches.meta.txt", "a\r\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_THAT(open_cifar10(path(), false, 0).class_names,
              testing::ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"));
}

class DefaultData : public Files {
 protected:
  void SetUp() override {
    if (const char* old = ::getenv("XDG_DATA_HOME")) old_ = old;
    ::setenv("XDG_DATA_HOME", directory_.path().c_str(), 1);
  }
  void TearDown() override {
    old_.empty() ? ::unsetenv("XDG_DATA_HOME") : ::setenv("XDG_DATA_HOME", old_.c_str(), 1);
  }
  std::string old_;
};

TEST_F(DefaultData, IsSyntheticAndSaysSoWhenNothingWasFetched) {
  const Cifar10 data = open_cifar10("", true, 0);
  EXPECT_TRUE(data.synthetic);
  EXPECT_THAT(data.note, HasSubstr("synthetic"));
  EXPECT_EQ(data.train->size(), 50'000U);
  EXPECT_EQ(data.test->size(), 10'000U);
}

TEST_F(DefaultData, IsWhatFetchLeft) {
  write_batches(default_directory() / "cifar-10-batches-bin", 2);
  const Cifar10 data = open_cifar10("", true, 0);
  EXPECT_FALSE(data.synthetic);
  EXPECT_EQ(data.train->size(), 10U);
}

TEST_F(DefaultData, DamagedFilesAreNeverReplacedBySyntheticOnesInSilence) {
  write_batches(default_directory() / "cifar-10-batches-bin", 2);
  fs::remove(default_directory() / "cifar-10-batches-bin" / "test_batch.bin");
  EXPECT_THAT(message_of(""), HasSubstr("test_batch.bin is missing"));
}

}  // namespace
}  // namespace dtrain::datasets
