#pragma once

#include <string>

#include "report/archive.hpp"

namespace dtrain::report {

// Indented, with arrays of plain values on one line: a result stays readable and its samples compact.
std::string to_text(const Json& json);

}  // namespace dtrain::report
