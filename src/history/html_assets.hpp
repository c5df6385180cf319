#pragma once

#include <string_view>

// The files of html/, built into the program.
namespace dtrain::history::assets {

extern const std::string_view page;
extern const std::string_view script;

}  // namespace dtrain::history::assets
