#include "captured_log.hpp"

#include <iostream>
#include <mutex>

#include "base/log.hpp"

namespace dtrain::cluster {

namespace {

struct Lines {
  std::mutex mutex;
  std::string text;
};

Lines& lines() {
  static Lines instance;
  return instance;
}

void collect(LogLevel, std::string_view line) {
  const std::lock_guard lock(lines().mutex);
  lines().text += std::string(line) + "\n";
}

void show(LogLevel, std::string_view line) { std::cerr << line << "\n"; }

}  // namespace

CapturedLog::CapturedLog() {
  const std::lock_guard lock(lines().mutex);
  lines().text.clear();
  redirect_log(&collect);
}

CapturedLog::~CapturedLog() { redirect_log(&show); }

std::string CapturedLog::text() const {
  const std::lock_guard lock(lines().mutex);
  return lines().text;
}

}  // namespace dtrain::cluster
