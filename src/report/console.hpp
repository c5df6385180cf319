#pragma once

#include <string>

#include "report/result.hpp"

namespace dtrain::report {

struct ConsoleStyle {
  bool terminal = false;  // else plain lines: no colour, no redrawing
  bool color = false;
  bool unicode = false;
  int width = 100;
};

// What `fd` can show: terminal, NO_COLOR, TERM, the locale's character set, the window's width.
ConsoleStyle console_style(int fd);

// What is about to be measured, and on what. Needs plans in Result::samples but nothing measured.
std::string render_header(const Result& result, const ConsoleStyle& style);

// Scaling table, loss budget, verdict, warnings, files.
std::string render_report(const Result& result, const ConsoleStyle& style);

}  // namespace dtrain::report
