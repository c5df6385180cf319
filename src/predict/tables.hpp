#pragma once

#include "predict/prediction.hpp"
#include "report/tables.hpp"

// What the console, Markdown and HTML show alike.
namespace dtrain::predict {

std::vector<report::Fact> source_facts(const Prediction& prediction);
report::Table estimate_table(const Prediction& prediction);
report::Table check_table(const Prediction& prediction);
report::Table limit_table(const Prediction& prediction);
report::Table gain_table(const Prediction& prediction);  // no rows where nothing would help

// One line for a refusal.
std::string refusal_line(const Prediction& prediction);

}  // namespace dtrain::predict
