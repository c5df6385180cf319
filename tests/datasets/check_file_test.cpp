#include "datasets/check_file.hpp"

#include <gmock/gmock.h>

#include "fixtures.hpp"

namespace dtrain::datasets {
namespace {

using testing::HasSubstr;

class CheckFile : public testing::Test {
 protected:
  std::string file() const { return (directory_ / "x.bin").string(); }

  std::vector<std::uint8_t> labels_of(const std::string& content) {
    write_file(file(), content);
    std::vector<std::uint8_t> labels;
    read_labels(MappedFile(file()), labels);
    return labels;
  }

  Error error_for(const std::string& content) {
    const Error error = error_of([&] { labels_of(content); });
    EXPECT_EQ(error.category(), ErrorCategory::data);
    EXPECT_THAT(error.what(), HasSubstr(file()));
    EXPECT_FALSE(error.advice().empty());
    return error;
  }

  std::string message_for(const std::string& content) { return error_for(content).what(); }

  TemporaryDirectory directory_;
};

std::string cifar100(int records) {
  std::string out;
  for (int i = 0; i < records; ++i) {
    out += static_cast<char>(i % 20);
    out += static_cast<char>(10 + i % 90);
    out += std::string(pixels_per_image, '\x7f');
  }
  return out;
}

TEST_F(CheckFile, ReadsTheLabelOfEveryRecord) {
  EXPECT_EQ(labels_of(make_records(12, 5)), (std::vector<std::uint8_t>{5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6}));
}

TEST_F(CheckFile, AppendsToLabelsOfEarlierFiles) {
  write_file(file(), make_records(2, 8));
  std::vector<std::uint8_t> labels = {3};
  read_labels(MappedFile(file()), labels);
  EXPECT_EQ(labels, (std::vector<std::uint8_t>{3, 8, 9}));
}

TEST_F(CheckFile, EmptyFile) { EXPECT_THAT(message_for(""), HasSubstr("empty: 0 bytes")); }

TEST_F(CheckFile, OneByteCutOff) {
  const std::string records = make_records(3);
  const std::string message = message_for(records.substr(0, records.size() - 1));
  EXPECT_THAT(message,
              HasSubstr("truncated: 9218 bytes are 2 whole records of 3073 bytes and 3072 bytes over"));
  EXPECT_THAT(message, HasSubstr("record 2 at byte offset 6146 should go on to 9219 bytes"));
}

TEST_F(CheckFile, LessThanOneRecord) {
  EXPECT_THAT(message_for("\1"), HasSubstr("truncated: 1 bytes are 0 whole records"));
}

TEST_F(CheckFile, OneByteMoreThanAnOfficialFile) {
  EXPECT_THAT(
      message_for(std::string(30'730'001, '\0')),
      HasSubstr("oversized: 30730001 bytes are 10000 whole records of 3073 bytes and 1 bytes over; expected "
                "30730000 bytes"));
}

TEST_F(CheckFile, LabelTenNamesRecordOffsetAndValue) {
  std::string records = make_records(5);
  records[2 * record_bytes] = 10;
  EXPECT_THAT(message_for(records),
              HasSubstr("record 2 (counted from 0) at byte offset 6146: label 10 is not in 0..9"));
}

TEST_F(CheckFile, Label255InTheLastRecord) {
  std::string records = make_records(5);
  records[4 * record_bytes] = '\xff';
  EXPECT_THAT(message_for(records), HasSubstr("record 4 (counted from 0) at byte offset 12292: label 255"));
}

TEST_F(CheckFile, FirstOfSeveralBadLabelsIsNamed) {
  std::string records = make_records(5);
  records[1 * record_bytes] = 77;
  records[3 * record_bytes] = '\xff';
  EXPECT_THAT(message_for(records), HasSubstr("record 1 (counted from 0) at byte offset 3073: label 77"));
}

TEST_F(CheckFile, Cifar100) {
  EXPECT_THAT(message_for(cifar100(7)),
              HasSubstr("21518 bytes are 7 records of 3074 bytes with two labels: this is "
                        "CIFAR-100"));
}

// 3073 records of CIFAR-100 have as many bytes as 3074 of CIFAR-10: the labels must tell.
TEST_F(CheckFile, Cifar100OfASizeThatFitsBoth) {
  EXPECT_THAT(message_for(cifar100(3073)),
              HasSubstr("3073 records of 3074 bytes with two labels: this is CIFAR-100"));
}

TEST_F(CheckFile, Cifar10OfASizeThatFitsBoth) {
  EXPECT_EQ(labels_of(std::string(std::size_t{3074} * record_bytes, '\3')).size(), 3074U);
}

TEST_F(CheckFile, BadLabelInCifar10OfASizeThatFitsBoth) {
  std::string records(std::size_t{3074} * record_bytes, '\xc8');
  for (std::size_t i = 0; i < 3074; ++i) records[i * record_bytes] = 1;
  records[9 * record_bytes] = 11;
  EXPECT_THAT(message_for(records), HasSubstr("record 9 (counted from 0)"));
}

struct Foreign {
  const char* name;
  std::string start;
  const char* expected;
};

class ForeignFormat : public CheckFile, public testing::WithParamInterface<Foreign> {};

TEST_P(ForeignFormat, IsNamed) {
  EXPECT_THAT(message_for(GetParam().start + std::string(5000, 'x')), HasSubstr(GetParam().expected));
  std::string whole = GetParam().start;
  whole.resize(2 * record_bytes, 'x');
  EXPECT_THAT(message_for(whole), HasSubstr(GetParam().expected));
}

std::string tar_start() {
  std::string header = "cifar-10-batches-bin/";
  header.resize(257, '\0');
  return header + "ustar";
}

INSTANTIATE_TEST_SUITE_P(CheckFile, ForeignFormat,
                         testing::Values(Foreign{"gzip", "\x1f\x8b\x08", "a gzip archive"},
                                         Foreign{"zip", "PK\x03\x04", "a zip archive"},
                                         Foreign{"xz",
                                                 std::string("\xfd"
                                                             "7zXZ\0",
                                                             6),
                                                 "an xz archive"},
                                         Foreign{"bzip2", "BZh9", "a bzip2 archive"},
                                         Foreign{"tar", tar_start(), "a tar archive"},
                                         Foreign{"pickle2", "\x80\x02}q", "Python version"},
                                         Foreign{"pickle4", "\x80\x04\x95", "Python version"},
                                         Foreign{"matlab", "MATLAB 5.0 MAT-file", "Matlab version"},
                                         Foreign{"numpy", "\x93NUMPY\1", "a NumPy array"},
                                         Foreign{"html", "<!DOCTYPE html><html>", "a web page"},
                                         Foreign{"spaced_html", "\n\t <HTML><head>", "a web page"}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace dtrain::datasets
