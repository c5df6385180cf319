#include "datasets/find_files.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::datasets {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 5> train_names = {
    "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
constexpr const char* test_name = "test_batch.bin";
constexpr const char* get_files =
    "`dtrain data fetch` downloads the files, `dtrain data generate` makes some";

// Also true of a link that leads nowhere: what is wrong with it is said when it is opened.
bool present(const fs::path& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

bool any_batch_in(const fs::path& directory) {
  return present(directory / test_name) ||
         std::any_of(train_names.begin(), train_names.end(),
                     [&](const char* name) { return present(directory / name); });
}

std::string packed_archive_in(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    for (const char* ending : {".tar.gz", ".tgz", ".tar", ".zip"}) {
      if (name.starts_with("cifar") && name.ends_with(ending)) return name;
    }
  }
  return {};
}

[[noreturn]] void fail_without_batches(const fs::path& directory) {
  const std::string where = directory.string();
  if (present(directory / "data_batch_1") || present(directory / "cifar-10-batches-py")) {
    throw data_error(where + ": holds the Python version of CIFAR-10 (data_batch_1 without .bin)",
                     "the binary version is needed: `dtrain data fetch` downloads it");
  }
  if (present(directory / "data_batch_1.mat") || present(directory / "cifar-10-batches-mat")) {
    throw data_error(where + ": holds the Matlab version of CIFAR-10 (data_batch_1.mat)",
                     "the binary version is needed: `dtrain data fetch` downloads it");
  }
  if (present(directory / "train.bin") || present(directory / "cifar-100-binary")) {
    throw data_error(where + ": holds CIFAR-100 (train.bin), not CIFAR-10",
                     "CIFAR-10 is needed: `dtrain data fetch` downloads it");
  }
  if (const std::string archive = packed_archive_in(directory); !archive.empty()) {
    throw data_error(fmt::format("{}: holds {}, which is not unpacked", where, archive),
                     "unpack it with tar xzf, or let `dtrain data fetch` do it");
  }
  throw data_error(
      fmt::format("{}: no CIFAR-10 files here: data_batch_1.bin to data_batch_5.bin and {}", where,
                  test_name),
      fmt::format("{}; files of other names can be given as a glob, such as '{}/*.bin'", get_files, where));
}

FoundFiles find_in_directory(const fs::path& given) {
  const fs::path inner = given / "cifar-10-batches-bin";
  const fs::path directory = any_batch_in(given) || !any_batch_in(inner) ? given : inner;
  if (!any_batch_in(directory)) fail_without_batches(directory);

  FoundFiles found;
  std::vector<std::string> missing;
  const auto look_for = [&](const char* name, std::vector<fs::path>& into) {
    if (present(directory / name)) {
      into.push_back(directory / name);
    } else {
      missing.emplace_back(name);
    }
  };
  for (const char* name : train_names) look_for(name, found.train);
  look_for(test_name, found.test);
  if (!missing.empty()) {
    throw data_error(
        fmt::format("{}: {} {} missing", directory.string(), join(missing, ", "),
                    missing.size() == 1 ? "is" : "are"),
        fmt::format("{}; to train on the files that are there, give them as a glob: '{}/data_batch_*.bin'",
                    get_files, directory.string()));
  }
  return found;
}

std::vector<fs::path> expand(const std::string& pattern) {
  glob_t matches = {};
  const int failed = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &matches);
  std::vector<fs::path> paths(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  ::globfree(&matches);
  if (failed != 0 && failed != GLOB_NOMATCH) {
    throw data_error(fmt::format("{}: a folder of this pattern cannot be read", pattern),
                     "give this user permission to read it, or another pattern");
  }
  return paths;
}

bool is_test_file(const fs::path& path) { return path.filename().string().starts_with("test_batch"); }

FoundFiles find_by_glob(const std::string& pattern) {
  FoundFiles found;
  found.train = expand(pattern);
  if (found.train.empty()) {
    throw data_error(pattern + ": no file matches this pattern", get_files);
  }
  if (!std::all_of(found.train.begin(), found.train.end(), is_test_file) &&
      std::erase_if(found.train, is_test_file) > 0) {
    found.note = fmt::format("{}: the test file is left out of training", pattern);
  }
  return found;
}

[[noreturn]] void fail_to_read(const fs::path& path, int error_number) {
  const std::string where = path.string();
  switch (error_number) {
    case ENOENT:
      if (fs::is_symlink(fs::symlink_status(path))) {
        throw data_error(fmt::format("{}: a symbolic link to {}, which does not exist", where,
                                     fs::read_symlink(path).string()),
                         "make the link lead to a file, or give another path");
      }
      throw data_error(where + ": no such file or folder", fmt::format("check the path; {}", get_files));
    case ELOOP:
      throw data_error(where + ": symbolic links that lead to each other in a loop",
                       "replace the link by the file it should lead to");
    case EACCES:
      throw data_error(where + ": cannot be read: permission denied",
                       "give this user permission to read it and to enter its folders");
    default:
      throw data_error(fmt::format("{}: cannot be read: {}", where, std::strerror(error_number)),
                       "check the path and the file system it is on");
  }
}

}  // namespace

void require_readable_file(const fs::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) fail_to_read(path, errno);
  if (S_ISDIR(status.st_mode)) {
    throw data_error(path.string() + ": a folder, where a file of records is expected",
                     "give the folder that holds data_batch_1.bin, or the file itself");
  }
  if (!S_ISREG(status.st_mode)) {
    throw data_error(path.string() + ": not a regular file (a pipe, socket or device)",
                     "records are mapped into memory: "
                     "write them to a file first");
  }
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0) fail_to_read(path, errno);
}

FoundFiles find_files(const std::string& data) {
  struct stat status = {};
  if (::stat(data.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    if (::faccessat(AT_FDCWD, data.c_str(), R_OK | X_OK, AT_EACCESS) != 0) fail_to_read(data, errno);
    return find_in_directory(data);
  }
  if (!present(data) && data.find_first_of("*?[") != std::string::npos) return find_by_glob(data);
  require_readable_file(data);
  return {.train = {data}, .test = {}, .note = {}};
}

}  // namespace dtrain::datasets
