#pragma once

#include <array>

#include "launch/console.hpp"
#include "launch/lines.hpp"
#include "launch/log_file.hpp"

namespace dtrain::launch {

// Takes one process's output to the console and to its log, line by line. The error that it may end with is
// held back until it has ended, because then others may have said the same.
class Relay {
 public:
  Relay(Speaker speaker, LogFile log, Console& console);

  void add(Stream stream, std::string_view bytes);
  void finish(const Ending& ending);

  // It ended because an address that it was given had been taken by somebody else.
  bool found_its_port_taken() const { return port_taken_; }

 private:
  void take(Stream stream, const std::string& line);
  void release();

  Speaker speaker_;
  LogFile log_;
  Console& console_;
  std::array<Lines, 2> lines_;
  std::vector<std::string> held_;  // "error: ...", "  -> ..."
  bool port_taken_ = false;
};

}  // namespace dtrain::launch
