#pragma once

#include <set>
#include <string>
#include <vector>

#include "launch/ending.hpp"

namespace dtrain::launch {

enum class Stream { out, error };

// Who a line comes from.
struct Speaker {
  std::string title;  // "worker 1"
  int color = 0;      // tells it from the others on a terminal
};

// Where all processes' lines come together: "[worker 1] ..." on stdout or stderr.
class Console {
 public:
  Console();

  // Environment error when the line cannot be written.
  void write(Stream stream, const Speaker& speaker, const std::string& line);

  // The error that `speaker` ended with, once for all: many processes stumble over the same thing, and every
  // process of a wrong command line says so.
  void write_error(const Speaker& speaker, const std::vector<std::string>& lines, const Ending& ending);
  int repeated_errors() const { return repeated_errors_; }

 private:
  bool colored_[2];
  std::set<std::string> errors_;
  int repeated_errors_ = 0;
};

}  // namespace dtrain::launch
