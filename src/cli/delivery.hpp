#pragma once

#include <string>

#include "report/result.hpp"

namespace dtrain::cli {

bool is_asked(const config::Options& options, const std::string& format);

// Writes the files asked for, with a copy of result.json for the folder's history, and shows the report on
// stdout; the header too unless it was shown before. Where
// a file cannot be written the report is shown all the same, before the error is thrown.
void deliver(const report::Result& result, bool header_shown);

// What is about to run, on stdout: plans, but nothing measured.
void show_header(const report::Result& result, const std::vector<config::RunPlan>& runs);

}  // namespace dtrain::cli
