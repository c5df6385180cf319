#include "launch/capture.hpp"

#include <poll.h>

#include <array>
#include <csignal>

namespace dtrain::launch {

namespace {

constexpr int poll_ms = 100;

void read_all(FileDescriptor& from, std::string& into) {
  std::array<char, 4096> bytes{};
  while (from.open()) {
    const ssize_t n = ::read(from.get(), bytes.data(), bytes.size());
    if (n > 0) {
      into.append(bytes.data(), static_cast<std::size_t>(n));
    } else if (n == 0) {
      from.close();
    } else {
      return;
    }
  }
}

void wait_for_news(Process& process, const Signals& signals) {
  std::array<pollfd, 3> watched{};
  watched[0] = {signals.descriptor(), POLLIN, 0};
  watched[1] = {process.out().open() ? process.out().get() : -1, POLLIN, 0};
  watched[2] = {process.error().open() ? process.error().get() : -1, POLLIN, 0};
  ::poll(watched.data(), watched.size(), poll_ms);
}

}  // namespace

Captured run_captured(const ProcessSpec& spec, Signals& signals, Deadline deadline) {
  Captured captured;
  Process process = Process::start(spec, Clock::now());
  while (!process.poll()) {
    wait_for_news(process, signals);
    for (const int signal : signals.take()) {
      if (signal == SIGCHLD) continue;
      process.send(captured.interrupted_by == 0 ? signal : SIGKILL);
      captured.interrupted_by = signal;
    }
    if (deadline.passed() && !captured.timed_out) {
      captured.timed_out = true;
      process.send(SIGKILL);
    }
    read_all(process.out(), captured.out);
    read_all(process.error(), captured.error);
  }
  read_all(process.out(), captured.out);
  read_all(process.error(), captured.error);
  captured.ending = *process.ending();
  return captured;
}

}  // namespace dtrain::launch
