#pragma once

#include <string>

#include "report/result.hpp"

// One format a file.
namespace dtrain::report {

std::string to_csv(const Result& result);       // a row a run and round
std::string to_markdown(const Result& result);  // fit for a pull request
std::string to_html(const Result& result);      // one file that needs no network
std::string to_plain_text(const Result& result);

}  // namespace dtrain::report
