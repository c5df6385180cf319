#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/archive.hpp"
#include "report/tables.hpp"

// The pieces that HTML pages are made of. Text that came from outside is escaped by whoever puts it in.
namespace dtrain::report {

std::string html_escaped(const std::string& text);

// JSON inside a script element: no `<`, so that nothing in it can end the element.
std::string script_data(const Json& json);

std::string html_table(const Table& table);  // a card; nothing for a table without rows

// All of a page's own JavaScript: what the charts share, these makers of charts, and the start.
std::string page_script(const std::string& makers);

// Replaces each {{name}} once, in one pass: what is put in is never searched again. std::out_of_range for a
// name that has no value.
std::string fill(std::string_view page, const std::map<std::string_view, std::string>& values);

}  // namespace dtrain::report
