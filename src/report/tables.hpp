#pragma once

#include <string>
#include <vector>

#include "report/result.hpp"

// What the console, Markdown and HTML reports all show, as plain text: they differ in how, never in what.
namespace dtrain::report {

struct Fact {
  std::string label;
  std::string value;
};

struct Table {
  struct Column {
    std::string head;
    bool number = false;  // aligned to the right
  };
  std::string title;
  std::string caption;  // says what medians, brackets and percentages mean
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

// What was asked for and on what: all of it is known before the first step.
std::vector<Fact> command_facts(const Result& result);
std::vector<Fact> machine_facts(const Result& result);

Table scaling_table(const Result& result);
Table budget_table(const Result& result);      // a column a run that has a budget; no columns without one
Table phase_table(const Result& result);       // a row a rank of every run
Table evaluation_table(const Result& result);  // no rows unless something was evaluated

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
