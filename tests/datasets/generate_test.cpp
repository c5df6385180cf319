#include "datasets/generate.hpp"

#include <gmock/gmock.h>

#include "datasets/synthetic.hpp"
#include "fixtures.hpp"

namespace dtrain::datasets {
namespace {

TEST(Generate, WritesFilesThatTheReaderTakes) {
  const TemporaryDirectory directory;
  const auto written =
      generate({.directory = directory / "new", .images_per_file = 12, .test_images = 7, .seed = 3});
  ASSERT_EQ(written.size(), 7U);
  EXPECT_EQ(std::filesystem::file_size(directory / "new" / "data_batch_3.bin"), 12 * record_bytes);
  const Cifar10 data = open_cifar10((directory / "new").string(), false, 0);
  EXPECT_EQ(data.train->size(), 60U);
  EXPECT_EQ(data.test->size(), 7U);
  EXPECT_EQ(data.class_names, synthetic_class_names());
}

TEST(Generate, FilesHoldTheImagesOfTheSyntheticSet) {
  const TemporaryDirectory directory;
  generate({.directory = directory.path(), .images_per_file = 9, .test_images = 4, .seed = 3});
  const Cifar10 data = open_cifar10(directory.path().string(), false, 0);
  EXPECT_EQ(data.train->checksum(),
            make_synthetic({.split = Split::train, .size = 45, .seed = 3})->checksum());
  EXPECT_EQ(data.test->checksum(), make_synthetic({.split = Split::test, .size = 4, .seed = 3})->checksum());
}

TEST(Generate, SameSeedGivesTheSameBytes) {
  const TemporaryDirectory directory;
  generate({.directory = directory / "a", .images_per_file = 3, .test_images = 3, .seed = 1});
  generate({.directory = directory / "b", .images_per_file = 3, .test_images = 3, .seed = 1});
  generate({.directory = directory / "c", .images_per_file = 3, .test_images = 3, .seed = 2});
  EXPECT_EQ(read_file(directory / "a" / "data_batch_5.bin"), read_file(directory / "b" / "data_batch_5.bin"));
  EXPECT_NE(read_file(directory / "a" / "data_batch_5.bin"), read_file(directory / "c" / "data_batch_5.bin"));
}

TEST(Generate, ReportsProgressUpToTheTotal) {
  const TemporaryDirectory directory;
  std::vector<std::size_t> seen;
  generate({.directory = directory.path(), .images_per_file = 2, .test_images = 5},
           [&](std::size_t done, std::size_t total) {
             EXPECT_EQ(total, 15U);
             seen.push_back(done);
           });
  EXPECT_EQ(seen, (std::vector<std::size_t>{2, 4, 6, 8, 10, 15}));
}

TEST(Generate, RefusesEmptyFiles) {
  const TemporaryDirectory directory;
  for (const auto& [train, test] : {std::pair{0, 1}, std::pair{1, 0}, std::pair{-1, 1}}) {
    const Error error = error_of(
        [&] { generate({.directory = directory.path(), .images_per_file = train, .test_images = test}); });
    EXPECT_EQ(error.category(), ErrorCategory::usage);
  }
}

TEST(Generate, FolderThatIsAFile) {
  const TemporaryDirectory directory;
  write_file(directory / "x", "");
  const Error error =
      error_of([&] { generate({.directory = directory / "x", .images_per_file = 1, .test_images = 1}); });
  EXPECT_EQ(error.category(), ErrorCategory::environment);
  EXPECT_THAT(error.what(), testing::HasSubstr((directory / "x").string()));
}

}  // namespace
}  // namespace dtrain::datasets
