#include "launch/lines.hpp"

#include <utility>

namespace dtrain::launch {

namespace {

constexpr std::size_t longest_line = 64 * 1024;

}  // namespace

void Lines::add(std::string_view bytes, const Take& take) {
  for (const char byte : bytes) {
    const bool returned = std::exchange(returned_, byte == '\r');
    if (byte == '\r') continue;
    if (returned && byte != '\n') line_.clear();
    if (byte != '\n') line_ += byte;
    if (byte == '\n' || line_.size() == longest_line) take(std::exchange(line_, {}));
  }
}

void Lines::finish(const Take& take) {
  if (!line_.empty()) take(std::exchange(line_, {}));
}

}  // namespace dtrain::launch
