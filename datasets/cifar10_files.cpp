#include "datasets/cifar10_files.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>

#include "base/mapped_file.hpp"
#include "datasets/check_file.hpp"
#include "datasets/checksummed.hpp"
#include "datasets/find_files.hpp"
#include "datasets/record_store.hpp"

namespace dtrain::datasets {

namespace fs = std::filesystem;

namespace {

// Reading one byte of every record has touched all pages; they leave the process again, not the page cache.
void release_pages(const MappedFile& file) {
  ::madvise(const_cast<std::uint8_t*>(file.bytes().data()), file.bytes().size(), MADV_DONTNEED);
}

class FileDataset final : public ChecksummedDataset {
 public:
  FileDataset(std::string name, const std::vector<fs::path>& paths, bool cache) : name_(std::move(name)) {
    for (const auto& path : paths) {
      require_readable_file(path);
      starts_.push_back(labels_.size());
      files_.emplace_back(path);
      read_labels(files_.back(), labels_);
      release_pages(files_.back());
    }
    if (cache) {
      cached_ = std::make_unique<RecordStore>(size(), [this](std::size_t index, auto out) {
        std::copy_n(mapped(index).data(), pixels_per_image, out.data());
      });
    }
  }

  const std::string& name() const override { return name_; }
  std::size_t size() const override { return labels_.size(); }
  int label(std::size_t index) const override { return labels_[index]; }
  std::span<const std::uint8_t, pixels_per_image> pixels(std::size_t index) const override {
    return cached_ ? cached_->at(index) : mapped(index);
  }

  void add_to(Hash& hash) const override {
    for (std::size_t i = 0; i < size(); ++i) add_record(hash, label(i), mapped(i));
    for (const MappedFile& file : files_) release_pages(file);
  }

  std::size_t records(std::size_t file) const {
    return (file + 1 < starts_.size() ? starts_[file + 1] : size()) - starts_[file];
  }

 private:
  std::span<const std::uint8_t, pixels_per_image> mapped(std::size_t index) const {
    const auto file = std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin() - 1;
    const std::size_t offset = (index - starts_[file]) * record_bytes + 1;
    return files_[file].bytes().subspan(offset).first<pixels_per_image>();
  }

  std::string name_;
  std::vector<MappedFile> files_;
  std::vector<std::size_t> starts_;  // index of each file's first record
  std::vector<std::uint8_t> labels_;
  std::unique_ptr<RecordStore> cached_;
};

}  // namespace

std::shared_ptr<const Dataset> open_files(const std::string& name, const std::vector<fs::path>& paths,
                                          bool test, bool cache, std::vector<DataFile>& files) {
  auto dataset = std::make_shared<const FileDataset>(name, paths, cache);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    files.push_back({.path = paths[i], .records = dataset->records(i), .test = test});
  }
  return dataset;
}

std::vector<std::string> read_class_names(const fs::path& directory) {
  std::vector<std::string> names;
  std::ifstream file(directory / "batches.meta.txt");
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (names.size() == class_count) return names;
  return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
}

}  // namespace dtrain::datasets
