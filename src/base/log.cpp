#include "base/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

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

}  // namespace

void set_up_log(bool quiet) { logger().set_level(quiet ? spdlog::level::warn : spdlog::level::info); }
void log_info(std::string_view message) { logger().info("{}", message); }
void log_warning(std::string_view message) { logger().warn("warning: {}", message); }
void log_error(std::string_view message) { logger().error("error: {}", message); }

}  // namespace dtrain
