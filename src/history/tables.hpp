#pragma once

#include <string>
#include <vector>

#include "history/history.hpp"
#include "report/tables.hpp"

// What the console, Markdown and HTML say of a history, as plain text.
namespace dtrain::history {

inline constexpr std::size_t all_points = static_cast<std::size_t>(-1);

// "14 results, 3 configurations on 1 machine"
std::string headline(const History& history);

// A row a point; of each series the last `most` points.
report::Table points_table(const Machine& machine, std::size_t most);
// Without the columns of configuration and change.
report::Table points_table(const Series& series, std::size_t most);
bool changes_at(const Series& series, std::size_t point);
std::string points_caption(std::size_t most);

// Each change in words; then drifts; then, together, which configurations did not change, and how many have
// too few results to say.
std::vector<std::string> change_lines(const Machine& machine);

std::string title_of(const Machine& machine);
std::string title_of(const Series& series);       // its label; another tool's name before it
std::string date_of(const std::string& created);  // 2024-05-06 07:08
std::string change_text(const Change& change);    // -9.8 % [-11.2, -8.4]

}  // namespace dtrain::history
