#include "cli/output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.hpp"

namespace dtrain::cli {

void print_out(const std::string& text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) {
    throw environment_error(fmt::format("standard output cannot be written: {}", std::strerror(errno)),
                            "send it to a place with room");
  }
}

}  // namespace dtrain::cli
