#pragma once

#include <string>
#include <vector>

#include "report/tables.hpp"

// The pieces that Markdown reports are made of.
namespace dtrain::report {

// Whatever Markdown or HTML would take as markup becomes a character reference; line breaks become spaces. A
// bracket is markup only where a link follows it, so that intervals stay readable in the source.
std::string markdown_text(const std::string& text);

std::string markdown_table(const Table& table);  // nothing for a table without rows
std::string markdown_list(const std::string& title, const std::vector<std::string>& lines);
std::string markdown_facts(const std::vector<Fact>& facts);

}  // namespace dtrain::report
