#pragma once

#include <string>

namespace dtrain::report {

// RFC 4180: quoted where a separator, quote or line break stands inside.
std::string csv_field(const std::string& text);

// Shortest text that reads back as the same number; empty where there is none.
std::string csv_number(double value);

}  // namespace dtrain::report
