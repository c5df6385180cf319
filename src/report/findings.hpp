#pragma once

#include <string>
#include <vector>

#include "report/result.hpp"

// What the console, Markdown and HTML reports say in sentences.
namespace dtrain::report {

// The measured run of most replicas, the fastest of them, and its index; null where none was measured.
const measure::RunSamples* largest_measured(const Result& result, std::size_t& index);

std::vector<std::string> straggler_lines(const Result& result);
std::vector<std::string> failure_lines(const Result& result);
std::vector<std::string> note_lines(const Result& result);
std::string measuring_line(const Result& result);  // cost of measuring; empty without samples
std::string agreement_line(const Result& result);  // losses and weights over ranks; empty without samples

// What a reader must know before any number: simulated, incomplete, unstable, CPU taken by default, sanitized
// build. Each says what to do.
std::vector<std::string> caveats(const Result& result);

// all_warnings, and why each unsteady run is unsteady.
std::vector<std::string> cautions(const Result& result);

}  // namespace dtrain::report
