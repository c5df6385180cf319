#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "launch/ending.hpp"
#include "launch/file_descriptor.hpp"

namespace dtrain::launch {

struct ProcessSpec {
  std::filesystem::path program;
  std::vector<std::string> arguments;    // the program's own name first
  std::vector<std::string> environment;  // NAME=value
  bool shares_stdout = false;            // writes to this process's stdout itself
};

// A child in a process group of its own, with pipes for what it writes and nothing to read. It is killed,
// with its group, when this is gone, and when the process that started it is, whatever ends that.
class Process {
 public:
  // Environment error when no process can be made. A program that cannot be run ends with code 3 and says so.
  // Its ending is told in seconds after `origin`.
  static Process start(const ProcessSpec& spec, TimePoint origin);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  pid_t id() const { return id_; }
  FileDescriptor& out() { return out_; }  // reading does not block; not open with shares_stdout
  FileDescriptor& error() { return error_; }

  void send(int signal);  // to its group
  // Its ending, once it has one.
  const std::optional<Ending>& poll();
  const std::optional<Ending>& ending() const { return ending_; }

 private:
  Process() = default;

  pid_t id_ = 0;
  FileDescriptor out_;
  FileDescriptor error_;
  TimePoint origin_;
  bool signalled_ = false;
  std::optional<Ending> ending_;
};

}  // namespace dtrain::launch
