#include "cli/progress_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/text.hpp"

namespace dtrain::cli {

namespace {

constexpr std::chrono::milliseconds redraw_interval{100};

double percent(std::size_t done, std::size_t total) {
  return total == 0 ? 0.0 : 100.0 * static_cast<double>(done) / static_cast<double>(total);
}

}  // namespace

ProgressLine::ProgressLine(bool quiet) : enabled_(!quiet && ::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::draw(const std::string& text) {
  if (!enabled_ || Clock::now() < next_) return;
  next_ = Clock::now() + redraw_interval;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::show(const std::string& what, std::size_t done, std::size_t total,
                        const std::string& unit) {
  draw(fmt::format("{}: {} of {} {}, {:.0f} %", what, done, total, unit, percent(done, total)));
}

void ProgressLine::show_bytes(const std::string& what, std::size_t done, std::size_t total) {
  draw(fmt::format("{}: {} of {}, {:.0f} %", what, format_bytes(static_cast<double>(done)),
                   format_bytes(static_cast<double>(total)), percent(done, total)));
}

void ProgressLine::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace dtrain::cli
