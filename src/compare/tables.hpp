#pragma once

#include "compare/comparison.hpp"
#include "report/tables.hpp"

// What the formats for people show, as plain text.
namespace dtrain::compare {

report::Table finding_table(const Comparison& comparison);
report::Table difference_table(const Comparison& comparison);

// What is not in a table: missing and added configurations, reasons, doubts, what would be found.
std::vector<std::string> remarks(const Comparison& comparison);

// "v1.2-3-gabc of 2026-11-30T10:00:00Z (results/result.json)"
std::string describe(const Side& side);

// -3.2 %; no number: n/a.
std::string signed_percent(double share);

// Of one finding, in a sentence.
std::string sentence(const Finding& finding);

}  // namespace dtrain::compare
