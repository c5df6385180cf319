#include "process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace dtrain::cluster {

namespace {

constexpr Seconds patience{30.0};

}  // namespace

Process::Process(const std::vector<std::string>& command) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int problem = ::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  pipe_ = ends[0];
  if (problem != 0) throw std::runtime_error("cannot start " + command[0]);
}

Process::~Process() {
  if (!waited_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(pipe_);
}

void Process::signal(int number) const { ::kill(pid_, number); }

bool Process::read_more(int wait_ms) {
  pollfd ready{pipe_, POLLIN, 0};
  if (::poll(&ready, 1, wait_ms) <= 0) return true;
  std::array<char, 4096> bytes = {};
  const auto size = ::read(pipe_, bytes.data(), bytes.size());
  if (size <= 0) return false;
  output_.append(bytes.data(), static_cast<std::size_t>(size));
  return true;
}

void Process::expect_line(const std::string& line) {
  const auto deadline = Deadline::in(patience);
  while (output_.find(line + "\n") == std::string::npos) {
    if (deadline.passed() || !read_more(100)) {
      FAIL() << "no line '" << line << "' in: " << output_;
    }
  }
}

int Process::wait() {
  const auto deadline = Deadline::in(patience);
  while (read_more(100)) {
    if (deadline.passed()) {
      ADD_FAILURE() << "does not end; so far: " << output_;
      signal(SIGKILL);
      break;
    }
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  waited_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace dtrain::cluster
