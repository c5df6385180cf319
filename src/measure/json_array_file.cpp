#include "measure/json_array_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/output_file.hpp"

namespace dtrain::measure {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view opening = "[";
constexpr std::string_view closing = "\n]\n";

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw environment_error(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)),
                          "name a file that this user can write, on a disk with room");
}

// The file that a link leads to, so that the link stays; it need not be there yet.
fs::path target_of(const fs::path& path) {
  constexpr int most_links = 40;
  std::error_code ignored;  // what is not there is not a link
  fs::path target = fs::absolute(path);
  for (int links = 0; links < most_links && fs::is_symlink(target, ignored); ++links) {
    target = target.parent_path() / fs::read_symlink(target);
  }
  if (fs::is_symlink(target, ignored) || target.filename().empty()) {
    throw environment_error(path.string() + ": is not the name of a file", "name a file");
  }
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    throw environment_error(path.string() + ": is there and is not a regular file", "name another file");
  }
  return target;
}

std::string empty_array() { return std::string(opening) + std::string(closing); }

void create(const fs::path& path) {
  try {
    write_atomically(path, empty_array());
  } catch (const Error& error) {
    throw environment_error(error.what(),
                            "name a file in a folder that is there and that this user can write");
  }
}

int open_to_write(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) fail(path, "cannot open");
  return fd;
}

bool exchange(const fs::path& a, const fs::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

JsonArrayFile::JsonArrayFile(const fs::path& path) {
  visible_.path = target_of(path);
  next_.path = visible_.path.parent_path() / fmt::format(".{}.next", visible_.path.filename().string());
  create(visible_.path);
  create(next_.path);
  const bool exchanges = exchange(visible_.path, next_.path);
  visible_.fd = open_to_write(visible_.path);
  visible_.end = next_.end = static_cast<off_t>(opening.size());
  if (exchanges) {
    next_.fd = open_to_write(next_.path);
  } else {
    ::unlink(next_.path.c_str());
  }
}

JsonArrayFile::~JsonArrayFile() {
  if (visible_.fd >= 0) ::close(visible_.fd);
  if (next_.fd < 0) return;
  ::close(next_.fd);
  ::unlink(next_.path.c_str());
}

void JsonArrayFile::extend(Copy& copy, std::string_view block) {
  std::string text(block);
  text += closing;
  std::string_view left = text;
  off_t offset = copy.end;
  while (!left.empty()) {
    const ssize_t written = ::pwrite(copy.fd, left.data(), left.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(visible_.path, "cannot write");
    left.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  copy.end += static_cast<off_t>(block.size());
}

void JsonArrayFile::append(std::string_view elements) {
  if (elements.empty()) return;
  const bool first = visible_.end == static_cast<off_t>(opening.size());
  std::string block = first ? "\n" : ",\n";
  block += elements;
  if (next_.fd < 0) return extend(visible_, block);

  extend(next_, missing_ + block);
  if (!exchange(visible_.path, next_.path)) fail(visible_.path, "cannot replace");
  std::swap(visible_.fd, next_.fd);
  std::swap(visible_.end, next_.end);
  missing_ = std::move(block);
}

}  // namespace dtrain::measure
