#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"

namespace dtrain::datasets {

inline constexpr int image_channels = 3;
inline constexpr int image_size = 32;
inline constexpr std::size_t pixels_per_image = 3072;  // planes of 32x32: red, green, blue
inline constexpr std::size_t record_bytes = 3073;      // label, then pixels
inline constexpr int class_count = 10;

// Records in CIFAR-10 binary layout, in the order of their files.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const std::string& name() const = 0;  // "synthetic", or the path as given
  virtual std::size_t size() const = 0;
  virtual int label(std::size_t index) const = 0;
  virtual std::span<const std::uint8_t, pixels_per_image> pixels(std::size_t index) const = 0;
  virtual std::string checksum() const = 0;  // of all bytes, computed once, off the clock
  // Label and pixels of every record in turn, so that it does not matter how files divide them.
  virtual void add_to(Hash& hash) const;
};

struct DataFile {
  std::filesystem::path path;
  std::size_t records = 0;
  bool test = false;
};

struct Cifar10 {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;  // null when a single file or glob was given
  bool synthetic = false;
  std::string note;             // e.g. that no files were found and synthetic data is used instead
  std::vector<DataFile> files;  // in the order of their records; none when synthetic
  std::vector<std::string> class_names;
};

// A directory (all five training files and the test file, or cifar-10-batches-bin/ with them), a single file,
// a glob, "synthetic", or "" for what `data fetch` left and else synthetic. Every record is checked: a data
// error says what is wrong with which file. `cache` copies each record into memory when it is first used;
// otherwise records are read through the mapping. `seed` is for synthetic images.
Cifar10 open_cifar10(const std::string& data, bool cache, std::uint64_t seed);

// Where `data fetch` leaves its files unless told otherwise.
std::filesystem::path default_directory();

}  // namespace dtrain::datasets
