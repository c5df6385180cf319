#include "launch/console.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/text.hpp"

namespace dtrain::launch {

namespace {

constexpr int descriptors[] = {STDOUT_FILENO, STDERR_FILENO};

bool shows_colors(int descriptor) {
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(descriptor) == 1 && (refused == nullptr || *refused == '\0');
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // a terminal that another program has set not to block
      pollfd room{descriptor, POLLOUT, 0};
      ::poll(&room, 1, -1);
      continue;
    }
    if (written < 0) {
      throw environment_error(fmt::format("{} cannot be written: {}",
                                          descriptor == STDOUT_FILENO ? "standard output" : "standard error",
                                          std::strerror(errno)),
                              "send it to a place with room");
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

Console::Console() : colored_{shows_colors(STDOUT_FILENO), shows_colors(STDERR_FILENO)} {}

void Console::write(Stream stream, const Speaker& speaker, const std::string& line) {
  const auto which = static_cast<std::size_t>(stream);
  const std::string prefix = colored_[which]
                                 ? fmt::format("\033[{}m[{}]\033[0m ", 31 + speaker.color % 6, speaker.title)
                                 : fmt::format("[{}] ", speaker.title);
  write_all(descriptors[which], prefix + line + "\n");
}

void Console::write_error(const Speaker& speaker, const std::vector<std::string>& lines,
                          const Ending& ending) {
  const bool usage = ending.signal == 0 && ending.code == static_cast<int>(ExitCode::usage);
  if (!errors_.insert(usage ? "usage" : join(lines, "\n")).second) {
    ++repeated_errors_;
    return;
  }
  for (const auto& line : lines) write(Stream::error, speaker, line);
}

}  // namespace dtrain::launch
