#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "base/random.hpp"
#include "datasets/dataset.hpp"

namespace dtrain::datasets {

// A folder that the test may fill, and that goes away with it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "dtrain-datasets-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Random pixels behind labels (first + i) % 10.
inline std::string make_records(int count, int first = 0) {
  std::string out;
  Random random(static_cast<std::uint64_t>(first) * 1000 + static_cast<std::uint64_t>(count));
  for (int i = 0; i < count; ++i) {
    out += static_cast<char>((first + i) % 10);
    for (std::size_t p = 0; p < pixels_per_image; ++p) out += static_cast<char>(random.next() & 255);
  }
  return out;
}

// The five training files of `records` records each, and a test file of as many.
inline void write_batches(const std::filesystem::path& directory, int records) {
  for (int i = 1; i <= 5; ++i) {
    write_file(directory / ("data_batch_" + std::to_string(i) + ".bin"), make_records(records, i * records));
  }
  write_file(directory / "test_batch.bin", make_records(records, 7));
}

inline Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return run_error("", "");
}

// Images whose every byte tells their number, for tests of order.
class NumberedDataset final : public Dataset {
 public:
  explicit NumberedDataset(std::size_t size) : pixels_(size * pixels_per_image) {
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t p = 0; p < pixels_per_image; ++p) {
        pixels_[i * pixels_per_image + p] = static_cast<std::uint8_t>(mix(i, p) & 255);
      }
    }
  }
  const std::string& name() const override { return name_; }
  std::size_t size() const override { return pixels_.size() / pixels_per_image; }
  int label(std::size_t index) const override { return static_cast<int>(index); }
  std::span<const std::uint8_t, pixels_per_image> pixels(std::size_t index) const override {
    return std::span<const std::uint8_t, pixels_per_image>(pixels_.data() + index * pixels_per_image,
                                                           pixels_per_image);
  }
  std::string checksum() const override { return "numbered"; }

 private:
  std::string name_ = "numbered";
  std::vector<std::uint8_t> pixels_;
};

}  // namespace dtrain::datasets
