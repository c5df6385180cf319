#include "datasets/inspect.hpp"

#include <gmock/gmock.h>

#include "fixtures.hpp"

namespace dtrain::datasets {
namespace {

TEST(Inspect, CountsRecordsAndLabels) {
  const TemporaryDirectory directory;
  write_batches(directory.path(), 3);
  const Inspection found = inspect(open_cifar10(directory.path().string(), true, 0));
  EXPECT_EQ(found.files.size(), 6U);
  EXPECT_EQ(found.train.records, 15U);
  // Labels 3, 4, ... 17, modulo 10.
  EXPECT_THAT(found.train.labels, testing::ElementsAre(1, 1, 1, 2, 2, 2, 2, 2, 1, 1));
  ASSERT_TRUE(found.test.has_value());
  EXPECT_THAT(found.test->labels, testing::ElementsAre(0, 0, 0, 0, 0, 0, 0, 1, 1, 1));
  EXPECT_EQ(found.class_names[9], "truck");
  EXPECT_FALSE(found.synthetic);
}

TEST(Inspect, ChecksumsCoverTrainingAndTest) {
  const TemporaryDirectory directory;
  write_batches(directory.path(), 2);
  const Inspection before = inspect(open_cifar10(directory.path().string(), false, 0));
  write_file(directory / "test_batch.bin", make_records(2, 5));
  const Inspection after = inspect(open_cifar10(directory.path().string(), false, 0));
  EXPECT_EQ(before.train.checksum, after.train.checksum);
  EXPECT_NE(before.test->checksum, after.test->checksum);
  EXPECT_NE(before.checksum, after.checksum);
}

TEST(Inspect, SingleFileHasNoTestSummary) {
  const TemporaryDirectory directory;
  write_file(directory / "x.bin", make_records(2));
  const Inspection found = inspect(open_cifar10((directory / "x.bin").string(), false, 0));
  EXPECT_FALSE(found.test.has_value());
  EXPECT_EQ(found.checksum, found.train.checksum);
}

TEST(Inspect, PictureStartsWithTheBytesOfTheThreePlanes) {
  const TemporaryDirectory directory;
  write_batches(directory.path(), 2);
  const Cifar10 data = open_cifar10(directory.path().string(), false, 0);
  const Picture shown = picture(data, 3);
  const std::string header = "P6\n32 32\n255\n";
  ASSERT_EQ(shown.ppm.size(), header.size() + 3072);
  EXPECT_EQ(shown.ppm.substr(0, header.size()), header);
  const std::string record = make_records(2, 4).substr(record_bytes);
  EXPECT_EQ(shown.label, record[0]);
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(shown.ppm[header.size() + c], record[1 + 1024 * c]);
    EXPECT_EQ(shown.ppm[header.size() + 3 * 1023 + c], record[1 + 1024 * c + 1023]);
  }
}

TEST(Inspect, PicturesCountOnIntoTheTestFile) {
  const TemporaryDirectory directory;
  write_batches(directory.path(), 2);
  const Cifar10 data = open_cifar10(directory.path().string(), false, 0);
  EXPECT_FALSE(picture(data, 9).test);
  EXPECT_TRUE(picture(data, 10).test);
  EXPECT_EQ(picture(data, 11).label, 8);
  const Error error = error_of([&] { picture(data, 12); });
  EXPECT_EQ(error.category(), ErrorCategory::usage);
  EXPECT_THAT(error.what(), testing::HasSubstr("record 12"));
  EXPECT_THAT(error.advice(), testing::HasSubstr("0 to 11"));
}

TEST(Inspect, SyntheticSet) {
  const Inspection found = inspect(open_cifar10("synthetic", true, 0));
  EXPECT_TRUE(found.synthetic);
  EXPECT_TRUE(found.files.empty());
  EXPECT_EQ(found.train.records, 50'000U);
  EXPECT_EQ(found.test->records, 10'000U);
}

}  // namespace
}  // namespace dtrain::datasets
