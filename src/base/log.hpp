#pragma once

#include <string_view>

namespace dtrain {

enum class LogLevel { info, warning, error };
using LogTarget = void (*)(LogLevel, std::string_view);

// Progress and warnings go to stderr; results go to stdout and are not logged. `quiet` leaves warnings and
// errors.
void set_up_log(bool quiet);
void log(LogLevel level, std::string_view message);
inline void log_info(std::string_view message) { log(LogLevel::info, message); }
inline void log_warning(std::string_view message) { log(LogLevel::warning, message); }
inline void log_error(std::string_view message) { log(LogLevel::error, message); }

// Hands all that is logged to another log. For a loaded module, which has its own copy of these functions and
// speaks through the program's.
void redirect_log(LogTarget target);

}  // namespace dtrain
