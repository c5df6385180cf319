#pragma once

#include <string>

#include "report/archive.hpp"
#include "report/result.hpp"

namespace dtrain::report {

// A result as its file holds it.
Json to_node(const Result& result);

// Indented, with arrays of plain values on one line: a result stays readable and its samples compact.
std::string to_text(const Json& json);

}  // namespace dtrain::report
