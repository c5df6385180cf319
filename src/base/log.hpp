#pragma once

#include <string>
#include <string_view>

namespace dtrain {

// Progress and warnings go to stderr; results go to stdout and are not logged. `quiet` leaves warnings and
// errors.
void set_up_log(bool quiet);
void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

}  // namespace dtrain
