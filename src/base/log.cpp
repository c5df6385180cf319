#include "base/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

namespace dtrain {

namespace {

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = spdlog::stderr_color_mt("dtrain");
    made->set_pattern("%^%v%$");
    return made;
  }();
  return *instance;
}

void write(LogLevel level, std::string_view message) {
  switch (level) {
    case LogLevel::info:
      logger().info("{}", message);
      break;
    case LogLevel::warning:
      logger().warn("warning: {}", message);
      break;
    case LogLevel::error:
      logger().error("error: {}", message);
      break;
  }
}

std::atomic<LogTarget>& current_target() {
  static std::atomic<LogTarget> target = &write;
  return target;
}

}  // namespace

void set_up_log(bool quiet) { logger().set_level(quiet ? spdlog::level::warn : spdlog::level::info); }
void log(LogLevel level, std::string_view message) { current_target().load()(level, message); }
void redirect_log(LogTarget target) { current_target() = target; }

}  // namespace dtrain
