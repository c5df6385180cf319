#pragma once

#include <string>

#include "base/units.hpp"

namespace dtrain::cli {

// One line on stderr that is redrawn while something is under way; nothing where stderr is no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& what, std::size_t done, std::size_t total, const std::string& unit);
  void show_bytes(const std::string& what, std::size_t done, std::size_t total);
  void clear();

 private:
  void draw(const std::string& text);

  bool shown_ = false;
  bool enabled_;
  TimePoint next_{};
};

}  // namespace dtrain::cli
