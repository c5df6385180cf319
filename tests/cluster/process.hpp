#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/units.hpp"

namespace dtrain::cluster {

// A process that was started here, whose output is collected. Killed with its owner.
class Process {
 public:
  explicit Process(const std::vector<std::string>& command);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  // Waits until a line of the output is this.
  void expect_line(const std::string& line);
  // Waits for its end: the exit status, or minus the signal.
  int wait();
  // All lines to stdout so far.
  const std::string& output() const { return output_; }

 private:
  bool read_more(int wait_ms);

  int pid_ = -1;
  int pipe_ = -1;
  bool waited_ = false;
  std::string output_;
};

}  // namespace dtrain::cluster
