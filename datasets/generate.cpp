#include "datasets/generate.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "datasets/dataset.hpp"
#include "datasets/synthetic.hpp"

namespace dtrain::datasets {

namespace {

constexpr int train_files = 5;

std::string draw_records(std::uint64_t seed, Split split, std::size_t first, int count) {
  std::string records(static_cast<std::size_t>(count) * record_bytes, '\0');
  for (int i = 0; i < count; ++i) {
    auto* record = reinterpret_cast<std::uint8_t*>(records.data()) + i * record_bytes;
    record[0] = static_cast<std::uint8_t>(synthetic_label(seed, split, first + i));
    draw_image(seed, split, first + i,
               std::span<std::uint8_t, pixels_per_image>(record + 1, pixels_per_image));
  }
  return records;
}

void require_images(int count, const char* what) {
  if (count < 1) {
    throw usage_error(fmt::format("{} images {}", count, what), "ask for at least one image in every file");
  }
}

}  // namespace

std::vector<std::filesystem::path> generate(const GenerateConfig& config, const GenerateProgress& progress) {
  require_images(config.images_per_file, "in a training file");
  require_images(config.test_images, "in the test file");
  require_writable_directory(config.directory);

  std::vector<std::filesystem::path> written;
  std::size_t done = 0;
  const std::size_t total =
      static_cast<std::size_t>(config.images_per_file) * train_files + config.test_images;
  const auto write = [&](const std::string& name, Split split, std::size_t first, int count) {
    write_atomically(config.directory / name, draw_records(config.seed, split, first, count));
    written.push_back(config.directory / name);
    done += count;
    if (progress) progress(done, total);
  };
  for (int file = 0; file < train_files; ++file) {
    const std::size_t first = static_cast<std::size_t>(file) * config.images_per_file;
    write(fmt::format("data_batch_{}.bin", file + 1), Split::train, first, config.images_per_file);
  }
  write("test_batch.bin", Split::test, 0, config.test_images);
  write_atomically(config.directory / "batches.meta.txt", join(synthetic_class_names(), "\n") + "\n");
  written.push_back(config.directory / "batches.meta.txt");
  return written;
}

}  // namespace dtrain::datasets
