#include "datasets/check_file.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "datasets/dataset.hpp"

namespace dtrain::datasets {

namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t cifar100_record_bytes = 3074;  // coarse label, fine label, pixels
constexpr std::size_t official_bytes = 10'000 * record_bytes;
constexpr const char* fetch_again =
    "replace the file: `dtrain data fetch` downloads CIFAR-10, `dtrain data generate` makes files of the "
    "same format";

struct Signature {
  std::size_t offset;
  std::string_view magic;
  std::string_view what;
  std::string_view advice;
};

using namespace std::string_view_literals;

constexpr std::string_view unpack = "unpack it and give the folder, or let `dtrain data fetch` do it";
constexpr std::string_view binary_version =
    "the binary version of CIFAR-10 is needed: `dtrain data fetch` downloads it";

constexpr Signature signatures[] = {
    {0, "\x1f\x8b"sv, "a gzip archive that was not unpacked", unpack},
    {0, "PK\x03\x04"sv, "a zip archive that was not unpacked", unpack},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "an xz archive that was not unpacked", unpack},
    {0, "BZh"sv, "a bzip2 archive that was not unpacked", unpack},
    {257, "ustar"sv, "a tar archive that was not unpacked", unpack},
    {0, "\x80\x02"sv, "a Python pickle: this is the Python version of CIFAR", binary_version},
    {0, "\x80\x03"sv, "a Python pickle: this is the Python version of CIFAR", binary_version},
    {0, "\x80\x04"sv, "a Python pickle: this is the Python version of CIFAR", binary_version},
    {0, "\x80\x05"sv, "a Python pickle: this is the Python version of CIFAR", binary_version},
    {0, "MATLAB"sv, "a Matlab file: this is the Matlab version of CIFAR", binary_version},
    {0, "\x93NUMPY"sv, "a NumPy array", binary_version},
};

bool is_html(Bytes bytes) {
  std::string start;
  for (const std::uint8_t byte : bytes.first(std::min<std::size_t>(bytes.size(), 256))) {
    if (start.empty() && (std::isspace(byte) != 0 || byte == 0xef || byte == 0xbb || byte == 0xbf)) continue;
    start += static_cast<char>(std::tolower(byte));
  }
  return start.starts_with("<!doctype html") || start.starts_with("<html") || start.starts_with("<?xml");
}

void explain_foreign_format(const std::string& file, Bytes bytes) {
  for (const Signature& s : signatures) {
    if (bytes.size() < s.offset + s.magic.size()) continue;
    if (std::equal(s.magic.begin(), s.magic.end(), bytes.begin() + static_cast<std::ptrdiff_t>(s.offset),
                   [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; })) {
      throw data_error(fmt::format("{}: {}", file, s.what), std::string(s.advice));
    }
  }
  if (is_html(bytes)) {
    throw data_error(file + ": a web page, saved in place of the data",
                     "the download went wrong: `dtrain data fetch` downloads and verifies it");
  }
}

// Sizes cannot tell when both record lengths divide it; the labels then do.
bool is_cifar100(Bytes bytes) {
  if (bytes.size() % cifar100_record_bytes != 0) return false;
  if (bytes.size() % record_bytes != 0) return true;
  for (std::size_t at = 0; at < bytes.size(); at += cifar100_record_bytes) {
    if (bytes[at] >= 20 || bytes[at + 1] >= 100) return false;
  }
  return true;
}

void explain_size(const std::string& file, std::size_t size) {
  const std::size_t records = size / record_bytes;
  const std::size_t over = size % record_bytes;
  if (over == 0) return;
  if (size > official_bytes) {
    throw data_error(
        fmt::format("{}: oversized: {} bytes are {} whole records of {} bytes and {} bytes over; "
                    "expected {} bytes",
                    file, size, records, record_bytes, over, records * record_bytes),
        fetch_again);
  }
  throw data_error(
      fmt::format("{}: truncated: {} bytes are {} whole records of {} bytes and {} bytes over; record {} "
                  "at byte offset {} should go on to {} bytes",
                  file, size, records, record_bytes, over, records, records * record_bytes,
                  (records + 1) * record_bytes),
      fetch_again);
}

[[noreturn]] void explain_label(const std::string& file, Bytes bytes, std::size_t record) {
  const std::size_t offset = record * record_bytes;
  throw data_error(fmt::format("{}: record {} (counted from 0) at byte offset {}: label {} is not in 0..9",
                               file, record, offset, bytes[offset]),
                   fetch_again);
}

std::optional<std::size_t> first_bad_record(Bytes bytes) {
  for (std::size_t record = 0; record < bytes.size() / record_bytes; ++record) {
    if (bytes[record * record_bytes] >= class_count) return record;
  }
  return std::nullopt;
}

[[noreturn]] void explain(const std::string& file, Bytes bytes) {
  explain_foreign_format(file, bytes);
  if (is_cifar100(bytes)) {
    throw data_error(
        fmt::format("{}: {} bytes are {} records of {} bytes with two labels: this is CIFAR-100", file,
                    bytes.size(), bytes.size() / cifar100_record_bytes, cifar100_record_bytes),
        "CIFAR-10 is needed: `dtrain data fetch` downloads it");
  }
  explain_size(file, bytes.size());
  explain_label(file, bytes, first_bad_record(bytes).value());
}

}  // namespace

void read_labels(const MappedFile& file, std::vector<std::uint8_t>& labels) {
  const Bytes bytes = file.bytes();
  const std::string path = file.path().string();
  if (bytes.empty()) throw data_error(path + ": empty: 0 bytes, expected records of 3073 bytes", fetch_again);
  if (bytes.size() % record_bytes != 0) explain(path, bytes);

  const std::size_t records = bytes.size() / record_bytes;
  const std::size_t before = labels.size();
  labels.resize(before + records);
  std::uint8_t largest = 0;
  for (std::size_t i = 0; i < records; ++i) {
    const std::uint8_t label = bytes[i * record_bytes];
    labels[before + i] = label;
    largest = std::max(largest, label);
  }
  if (largest >= class_count) explain(path, bytes);
}

}  // namespace dtrain::datasets
