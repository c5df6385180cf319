#include "datasets/unpack.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace dtrain::datasets {

namespace fs = std::filesystem;

namespace {

using Reader = std::unique_ptr<archive, decltype(&archive_read_free)>;
using File = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

const std::vector<std::string>& required_names() {
  static const std::vector<std::string> names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                                 "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
  return names;
}

bool is_wanted(const std::string& name) {
  const auto& required = required_names();
  return name == "batches.meta.txt" || name == "readme.html" ||
         std::find(required.begin(), required.end(), name) != required.end();
}

[[noreturn]] void fail_to_read(const fs::path& path, archive* reader) {
  const char* text = archive_error_string(reader);
  throw data_error(
      fmt::format("{}: damaged archive: {}", path.string(), text != nullptr ? text : "unreadable"),
      "remove it and fetch again");
}

[[noreturn]] void fail_to_write(const fs::path& path) {
  throw environment_error(fmt::format("{}: cannot write: {}", path.string(), std::strerror(errno)),
                          "make room on this disk or give another folder");
}

class Unpacking {
 public:
  Unpacking(const fs::path& path, const std::function<void(std::uint64_t)>& progress)
      : path_(path), progress_(progress), reader_(archive_read_new(), &archive_read_free), buffer_(mib) {
    archive_read_support_filter_gzip(reader_.get());
    archive_read_support_format_tar(reader_.get());
    if (archive_read_open_filename(reader_.get(), path.c_str(), mib) != ARCHIVE_OK) fail();
  }

  // The next member that is one of CIFAR-10's files; empty at the end.
  std::string next() {
    while (true) {
      archive_entry* entry = nullptr;
      const int result = archive_read_next_header(reader_.get(), &entry);
      if (result == ARCHIVE_EOF) return {};
      if (result < ARCHIVE_WARN) fail();
      const char* member = archive_entry_pathname(entry);
      if (member == nullptr || archive_entry_filetype(entry) != AE_IFREG) continue;
      const std::string name = fs::path(member).filename().string();
      if (is_wanted(name)) return name;
    }
  }

  void write(const fs::path& target) {
    File file(std::fopen(target.c_str(), "wbe"), &std::fclose);
    if (!file) fail_to_write(target);
    while (true) {
      const auto count = archive_read_data(reader_.get(), buffer_.data(), buffer_.size());
      if (count < 0) fail();
      if (count == 0) break;
      const auto bytes = static_cast<std::size_t>(count);
      if (std::fwrite(buffer_.data(), 1, bytes, file.get()) != bytes) fail_to_write(target);
      done_ += bytes;
      if (progress_) progress_(done_);
    }
    if (std::fclose(file.release()) != 0) fail_to_write(target);
  }

 private:
  [[noreturn]] void fail() { fail_to_read(path_, reader_.get()); }

  fs::path path_;
  const std::function<void(std::uint64_t)>& progress_;
  Reader reader_;
  std::vector<char> buffer_;
  std::uint64_t done_ = 0;
};

}  // namespace

void unpack_cifar10(const fs::path& archive, const fs::path& directory,
                    const std::function<void(std::uint64_t bytes_done)>& progress) {
  Unpacking unpacking(archive, progress);
  std::vector<std::string> missing = required_names();
  for (std::string name = unpacking.next(); !name.empty(); name = unpacking.next()) {
    unpacking.write(directory / name);
    std::erase(missing, name);
  }
  if (!missing.empty()) {
    throw data_error(fmt::format("{}: the archive lacks {}", archive.string(), join(missing, ", ")),
                     "this is not CIFAR-10's binary version: remove it and fetch again");
  }
}

}  // namespace dtrain::datasets
