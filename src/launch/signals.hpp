#pragma once

#include <csignal>
#include <vector>

#include "launch/file_descriptor.hpp"

namespace dtrain::launch {

// While it lives, SIGINT, SIGTERM, SIGHUP and SIGCHLD wait to be read instead of interrupting. In a process
// with one thread; one at a time.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }  // readable when there is one
  std::vector<int> take();                              // all that have come; does not block

 private:
  sigset_t before_;
  FileDescriptor descriptor_;
};

}  // namespace dtrain::launch
