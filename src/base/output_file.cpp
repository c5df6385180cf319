#include "base/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& path, const char* what, int error_number) {
  throw environment_error(fmt::format("{}: {}: {}", path.string(), what, std::strerror(error_number)),
                          "give a folder that this user can write to with --out DIR");
}

void write_all(int fd, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int saved = errno;
      ::close(fd);
      ::unlink(path.c_str());
      fail(path, "cannot write", saved);
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

int create_beside(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail(path, "cannot create", errno);
  return fd;
}

fs::path temporary_for(const fs::path& path) { return path.string() + fmt::format(".tmp{}", ::getpid()); }

}  // namespace

void require_writable_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail(directory, "cannot create folder", error.value());
  if (!fs::is_directory(directory)) fail(directory, "not a folder", ENOTDIR);
  const fs::path probe = temporary_for(directory / ".dtrain-probe");
  ::close(create_beside(probe));
  ::unlink(probe.c_str());
}

void write_atomically(const fs::path& path, std::string_view content) {
  const fs::path temporary = temporary_for(path);
  const int fd = create_beside(temporary);
  write_all(fd, content, temporary);
  if (::fsync(fd) != 0 && errno != EINVAL) {
    const int saved = errno;
    ::close(fd);
    ::unlink(temporary.c_str());
    fail(temporary, "cannot flush", saved);
  }
  ::close(fd);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int saved = errno;
    ::unlink(temporary.c_str());
    fail(path, "cannot replace", saved);
  }
}

}  // namespace dtrain
