#include "launch/relay.hpp"

#include "base/text.hpp"

namespace dtrain::launch {

Relay::Relay(Speaker speaker, LogFile log, Console& console)
    : speaker_(std::move(speaker)), log_(std::move(log)), console_(console) {}

void Relay::add(Stream stream, std::string_view bytes) {
  lines_[static_cast<std::size_t>(stream)].add(bytes, [&](const std::string& line) { take(stream, line); });
}

void Relay::take(Stream stream, const std::string& line) {
  log_.write(line);
  if (stream == Stream::out) return console_.write(stream, speaker_, line);
  const bool advice = held_.size() == 1 && line.starts_with("  -> ");
  if (!advice) release();
  if (advice || line.starts_with("error: ")) {
    held_.push_back(line);
  } else {
    console_.write(stream, speaker_, line);
  }
}

void Relay::release() {
  for (const auto& line : std::exchange(held_, {})) console_.write(Stream::error, speaker_, line);
}

void Relay::finish(const Ending& ending) {
  for (const Stream stream : {Stream::out, Stream::error}) {
    lines_[static_cast<std::size_t>(stream)].finish([&](const std::string& line) { take(stream, line); });
  }
  log_.write(fmt::format("-- {} {}", speaker_.title, ending.describe()));
  if (held_.empty()) return;
  port_taken_ = ending.code == static_cast<int>(ExitCode::environment) &&
                join(held_, "\n").find("in use") != std::string::npos;
  console_.write_error(speaker_, std::exchange(held_, {}), ending);
}

}  // namespace dtrain::launch
