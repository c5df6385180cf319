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
Table exchange_table(const Result& result);    // a row a run of several replicas that sent something
Table choice_table(const Result& result);      // a row a strategy; none unless several did the same work
Table fact_table(const Result& result);        // a row a fact that a strategy tells of a run
Table memory_table(const Result& result);      // a row a rank, where strategies tell facts
Table evaluation_table(const Result& result);  // no rows unless something was evaluated

}  // namespace dtrain::report
