#include "datasets/fetch.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "base/output_file.hpp"
#include "datasets/dataset.hpp"
#include "datasets/download.hpp"
#include "datasets/sha256.hpp"
#include "datasets/unpack.hpp"

namespace dtrain::datasets {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t unpacked_bytes = 6 * 10'000 * record_bytes;
constexpr const char* sums_name = "SHA256SUMS";

struct Paths {
  fs::path files, archive, part, unpacking;
};

Paths paths_of(const FetchConfig& config) {
  const fs::path archive = config.directory / fs::path(config.archive.url).filename();
  const fs::path files = config.directory / "cifar-10-batches-bin";
  return {files, archive, archive.string() + ".part", files.string() + ".unpacking"};
}

std::string by_hand(const FetchConfig& config, const Paths& paths) {
  return fmt::format(
      "where there is no network, place the archive ({} bytes, SHA-256 {}) at {} by hand and fetch again, or "
      "make files with `dtrain data generate`",
      config.archive.bytes, config.archive.sha256, paths.archive.string());
}

// In the format that sha256sum checks.
std::string sums_of(const fs::path& directory, const std::function<void(std::uint64_t)>& progress) {
  std::string sums;
  std::uint64_t done = 0;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"}) {
    const fs::path path = directory / name;
    if (!fs::exists(path)) return {};
    sums += fmt::format("{}  {}\n",
                        sha256_of_file(path, [&](std::uint64_t bytes) { progress(done + bytes); }), name);
    done += fs::file_size(path);
  }
  return sums;
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class PartFile {
 public:
  explicit PartFile(const fs::path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (fd_ < 0) {
      throw environment_error(fmt::format("{}: cannot create: {}", path.string(), std::strerror(errno)),
                              "give a folder that this user can write to");
    }
    struct stat status = {};
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 || ::fstat(fd_, &status) != 0 || status.st_nlink == 0) {
      ::close(fd_);
      throw environment_error(path.string() + ": another fetch is at work here",
                              "wait for it to end, then fetch again");
    }
  }
  ~PartFile() {
    struct stat status = {};
    if (::fstat(fd_, &status) == 0 && status.st_size == 0) remove();
    ::close(fd_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  int fd() const { return fd_; }
  void remove() { ::unlink(path_.c_str()); }

 private:
  fs::path path_;
  int fd_;
};

// A folder that goes away with its contents unless it got its final name.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& path) : path_(path) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    require_writable_directory(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const fs::path& path() const { return path_; }
  void become(const fs::path& target) {
    std::error_code error;
    fs::remove_all(target, error);
    if (!error) fs::rename(path_, target, error);
    if (error) {
      throw environment_error(
          fmt::format("{}: cannot put the files here: {}", target.string(), error.message()),
          "move it away and fetch again");
    }
  }

 private:
  fs::path path_;
};

class Fetching {
 public:
  Fetching(const FetchConfig& config, const FetchProgress& progress)
      : config_(config), progress_(progress), paths_(paths_of(config)) {}

  FetchResult run() {
    if (already_there()) return {.files = paths_.files, .already_there = true};
    require_writable_directory(config_.directory);
    PartFile part(paths_.part);
    FetchResult result{.files = paths_.files};
    if (fs::exists(paths_.archive)) {
      verify(paths_.archive);
      unpack(paths_.archive);
    } else {
      require_room(part);
      const DownloadResult got = download(download_config(), part.fd());
      result.resumed_from = got.resumed_from;
      result.bytes_received = got.bytes_received;
      verify_or_remove(part);
      unpack(paths_.part);
    }
    part.remove();
    return result;
  }

 private:
  // Files that nobody vouches for are left alone; ours that changed since are replaced.
  bool already_there() {
    if (!fs::exists(paths_.files)) return false;
    const std::string expected = read_text(paths_.files / sums_name);
    if (expected.empty()) {
      throw data_error(
          fmt::format("{}: is there, but without the {} that fetch leaves", paths_.files.string(), sums_name),
          "use it as it is with --data, or move it away and fetch again");
    }
    return sums_of(paths_.files,
                   [&](std::uint64_t bytes) { tell(FetchStage::verify, bytes, unpacked_bytes); }) == expected;
  }

  void tell(FetchStage stage, std::uint64_t done, std::uint64_t total) const {
    if (config_.stop != nullptr && *config_.stop) throw Interrupted();
    if (progress_) progress_(stage, done, total);
  }

  Download download_config() const {
    return {
        .url = config_.archive.url,
        .bytes = config_.archive.bytes,
        .part = paths_.part,
        .advice = by_hand(config_, paths_),
        .stall = config_.stall,
        .stop = config_.stop,
        .progress = [this](std::uint64_t done) { tell(FetchStage::download, done, config_.archive.bytes); }};
  }

  void require_room(const PartFile& part) const {
    struct stat status = {};
    ::fstat(part.fd(), &status);
    const auto have = static_cast<std::uint64_t>(status.st_size);
    const std::uint64_t needed =
        (config_.archive.bytes > have ? config_.archive.bytes - have : 0) + unpacked_bytes;
    const std::uint64_t free = fs::space(config_.directory).available;
    if (free < needed) {
      throw environment_error(fmt::format("{}: {} bytes are needed for archive and files, {} are free",
                                          config_.directory.string(), needed, free),
                              "make room on this disk or give another folder");
    }
  }

  void verify(const fs::path& archive) const {
    const std::uint64_t size = fs::file_size(archive);
    if (size != config_.archive.bytes) {
      throw data_error(
          fmt::format("{}: {} bytes, expected {}", archive.string(), size, config_.archive.bytes),
          "the download went wrong: remove it and fetch again");
    }
    const std::string sum = sha256_of_file(
        archive, [&](std::uint64_t done) { tell(FetchStage::verify, done, config_.archive.bytes); });
    if (sum != config_.archive.sha256) {
      throw data_error(
          fmt::format("{}: SHA-256 is {}, expected {}", archive.string(), sum, config_.archive.sha256),
          "what was sent is damaged or not the official archive: remove it and fetch again");
    }
  }

  // Going on from bytes that turned out wrong would never end well. Interruptions keep them.
  void verify_or_remove(PartFile& part) const {
    try {
      verify(paths_.part);
    } catch (const Error&) {
      part.remove();
      throw;
    }
  }

  void unpack(const fs::path& archive) const {
    TemporaryFolder folder(paths_.unpacking);
    unpack_cifar10(archive, folder.path(),
                   [&](std::uint64_t done) { tell(FetchStage::unpack, done, unpacked_bytes); });
    open_cifar10(folder.path().string(), false, 0);
    const auto checking = [&](std::uint64_t done) { tell(FetchStage::verify, done, unpacked_bytes); };
    write_atomically(folder.path() / sums_name, sums_of(folder.path(), checking));
    folder.become(paths_.files);
  }

  const FetchConfig& config_;
  const FetchProgress& progress_;
  Paths paths_;
};

}  // namespace

Archive official_archive() {
  return {.url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
          .bytes = 170'052'171,
          .sha256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"};
}

FetchResult fetch(const FetchConfig& config, const FetchProgress& progress) {
  return Fetching(config, progress).run();
}

}  // namespace dtrain::datasets
