#include "launch/signals.hpp"

#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace dtrain::launch {

Signals::Signals() {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::sigaddset(&watched, signal);
  ::sigprocmask(SIG_BLOCK, &watched, &before_);
  descriptor_ = FileDescriptor(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.open()) {
    const int reason = errno;
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    throw environment_error(fmt::format("signals cannot be read: {}", std::strerror(reason)),
                            "raise the number of open files (`ulimit -n`)");
  }
}

Signals::~Signals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

std::vector<int> Signals::take() {
  std::vector<int> taken;
  signalfd_siginfo information;
  while (::read(descriptor_.get(), &information, sizeof information) == sizeof information) {
    taken.push_back(static_cast<int>(information.ssi_signo));
  }
  return taken;
}

}  // namespace dtrain::launch
