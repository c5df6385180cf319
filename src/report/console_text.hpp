#pragma once

#include <string>
#include <vector>

#include "report/console.hpp"
#include "report/tables.hpp"

// The pieces that console reports are made of. Text that came from outside is stripped of control characters,
// so that a file name cannot drive the terminal.
namespace dtrain::report {

enum class Ink { plain, bold, dim, warning, good };

std::string printable(const std::string& text);
std::string paint(const std::string& text, Ink ink, const ConsoleStyle& style);

// Breaks at spaces; lines after the first are indented by `indent` columns.
std::string wrap(const std::string& text, std::size_t indent, const ConsoleStyle& style);

// Columns aligned; a table wider than the terminal is continued below, its first `keys` columns repeated.
// `marks`, one column wide each, stand before the first rows.
std::string lay_out(const Table& table, std::size_t keys, const ConsoleStyle& style,
                    const std::vector<std::string>& marks = {});

// One bar of `columns` cells, split in proportion to the shares; negative shares take no cell.
std::string stacked_bar(const std::vector<double>& shares, std::size_t columns, const ConsoleStyle& style);
std::string bar_swatch(std::size_t part, const ConsoleStyle& style);  // how a part of the bar looks

}  // namespace dtrain::report
