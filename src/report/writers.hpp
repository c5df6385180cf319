#pragma once

#include <string>

#include "report/result.hpp"

// One format a file.
namespace dtrain::report {

std::string to_csv(const Result& result);       // a row a run and round
std::string to_markdown(const Result& result);  // fit for a pull request
std::string to_html(const Result& result);      // one file that needs no network
std::string to_plain_text(const Result& result);

// What another stage adds to a result's page.
struct HtmlPart {
  std::string section;  // in the page's body
  std::string script;   // after html_assets' charts
};
std::string to_html(const Result& result, const HtmlPart& more);

// For github-action-benchmark, tool customBiggerIsBetter: [{name, unit, value, range, extra}], images/s and
// scaling efficiency. What is better when smaller would need a second file; Bencher's takes both.
std::string to_github_action_benchmark(const Result& result);
std::string to_bencher(const Result& result);  // Bencher Metric Format: {benchmark: {measure: {value, ...}}}

}  // namespace dtrain::report
