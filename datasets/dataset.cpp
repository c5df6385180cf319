#include "datasets/dataset.hpp"

#include <cstdlib>

#include "datasets/checksummed.hpp"
#include "datasets/cifar10_files.hpp"
#include "datasets/find_files.hpp"
#include "datasets/synthetic.hpp"

namespace dtrain::datasets {

namespace fs = std::filesystem;

namespace {

Cifar10 open_synthetic(std::uint64_t seed, std::string note) {
  Cifar10 data;
  data.train = make_synthetic({.split = Split::train, .size = 50'000, .seed = seed});
  data.test = make_synthetic({.split = Split::test, .size = 10'000, .distinct = 10'000, .seed = seed});
  data.synthetic = true;
  data.note = std::move(note);
  data.class_names = synthetic_class_names();
  return data;
}

}  // namespace

Cifar10 open_cifar10(const std::string& data, bool cache, std::uint64_t seed) {
  if (data == "synthetic") return open_synthetic(seed, {});
  const fs::path fetched = default_directory() / "cifar-10-batches-bin";
  if (data.empty() && !fs::exists(fetched)) {
    return open_synthetic(seed, fetched.string() + " is not there, so synthetic images are used");
  }
  const std::string given = data.empty() ? fetched.string() : data;
  FoundFiles found = find_files(given);
  Cifar10 opened;
  opened.train = open_files(given, found.train, false, cache, opened.files);
  if (!found.test.empty()) opened.test = open_files(given, found.test, true, cache, opened.files);
  opened.note = std::move(found.note);
  opened.class_names = read_class_names(found.train.front().parent_path());
  return opened;
}

fs::path default_directory() {
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data == '/')
    return fs::path(data) / "dtrain";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return fs::path(home) / ".local" / "share" / "dtrain";
  }
  return "dtrain-data";
}

void Dataset::add_to(Hash& hash) const {
  for (std::size_t i = 0; i < size(); ++i) add_record(hash, label(i), pixels(i));
}

void add_record(Hash& hash, int label, std::span<const std::uint8_t, pixels_per_image> pixels) {
  const auto byte = static_cast<std::uint8_t>(label);
  hash.add(std::span<const std::uint8_t>(&byte, 1));
  hash.add(std::span<const std::uint8_t>(pixels));
}

}  // namespace dtrain::datasets
