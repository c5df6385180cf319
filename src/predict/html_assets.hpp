#pragma once

#include <string_view>

// The files of html/, built into the program; style and Chart.js are the report's.
namespace dtrain::predict::assets {

extern const std::string_view page;
extern const std::string_view script;

}  // namespace dtrain::predict::assets
