#include "launch/process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace dtrain::launch {

namespace {

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

[[noreturn]] void refuse(const char* what, int reason) {
  throw environment_error(fmt::format("{}: {}", what, std::strerror(reason)),
                          "start fewer workers, or raise the limits that `ulimit -a` shows");
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) refuse("no pipe can be made", errno);
  Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const auto& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

struct ChildPlan {
  pid_t parent;
  const char* program;
  char* const* arguments;
  char* const* environment;
  int input;
  int out;  // -1: the parent's
  int error;
};

// Between fork and exec: system calls only, for nothing else is sure to work there.
[[noreturn]] void become(const ChildPlan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(1);  // it was gone before it could be said
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE}) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(plan.input, STDIN_FILENO);
  if (plan.out >= 0) ::dup2(plan.out, STDOUT_FILENO);
  ::dup2(plan.error, STDERR_FILENO);
  ::execve(plan.program, plan.arguments, plan.environment);
  for (const char* part : {"error: ", plan.program, " cannot be started: ", ::strerrordesc_np(errno),
                           "\n  -> see that it is still there\n"}) {
    if (::write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  }
  ::_exit(static_cast<int>(ExitCode::environment));
}

}  // namespace

Process Process::start(const ProcessSpec& spec, TimePoint origin) {
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.open()) refuse("/dev/null cannot be opened", errno);
  Pipe out = spec.shares_stdout ? Pipe() : make_pipe();
  Pipe error = make_pipe();
  const auto arguments = pointers_to(spec.arguments);
  const auto environment = pointers_to(spec.environment);
  const ChildPlan plan{::getpid(),    spec.program.c_str(), arguments.data(), environment.data(),
                       nothing.get(), out.write.get(),      error.write.get()};
  Process process;
  process.origin_ = origin;
  process.id_ = ::fork();
  if (process.id_ == 0) become(plan);
  if (process.id_ < 0) {
    process.id_ = 0;
    refuse("no process can be started", errno);
  }
  ::setpgid(process.id_, process.id_);  // whoever comes first
  process.out_ = std::move(out.read);
  process.error_ = std::move(error.read);
  return process;
}

Process::Process(Process&& other) noexcept
    : id_(std::exchange(other.id_, 0)),
      out_(std::move(other.out_)),
      error_(std::move(other.error_)),
      origin_(other.origin_),
      signalled_(other.signalled_),
      ending_(other.ending_) {}

Process::~Process() {
  if (id_ == 0 || ending_) return;
  ::kill(-id_, SIGKILL);
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Process::send(int signal) {
  if (ending_) return;
  signalled_ = true;
  ::kill(-id_, signal);
}

const std::optional<Ending>& Process::poll() {
  if (ending_) return ending_;
  siginfo_t information = {};
  const int waited = ::waitid(P_PID, static_cast<id_t>(id_), &information, WEXITED | WNOHANG | WNOWAIT);
  if (waited != 0 || information.si_pid != id_) return ending_;
  ::kill(-id_, SIGKILL);  // what it may have left behind; its number is its own until it is waited for
  int status = 0;
  ::waitpid(id_, &status, 0);
  ending_ = Ending{WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                   seconds(Clock::now() - origin_), signalled_};
  return ending_;
}

}  // namespace dtrain::launch
