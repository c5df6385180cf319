#pragma once

#include <string_view>

// The files of html/ and Chart.js, built into the program: reports are made without looking for any file.
namespace dtrain::report::assets {

extern const std::string_view page;
extern const std::string_view style;
extern const std::string_view charts;  // shared by the scripts of all pages, which come after it
extern const std::string_view script;
extern const std::string_view chart_js;

}  // namespace dtrain::report::assets
