#include "launch/log_file.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace dtrain::launch {

LogFile::LogFile(const std::filesystem::path& path, const std::string& again, TimePoint start)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (again.empty() ? O_TRUNC : 0),
                   0666)),
      start_(start) {
  if (!file_.open()) {
    throw environment_error(fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)),
                            "choose another folder with --log-dir");
  }
  if (!again.empty()) write("-- " + again);
}

void LogFile::write(std::string_view line) {
  const std::string stamped = fmt::format("{:9.3f}  {}\n", seconds(Clock::now() - start_), line);
  [[maybe_unused]] const auto written = ::write(file_.get(), stamped.data(), stamped.size());
}

}  // namespace dtrain::launch
