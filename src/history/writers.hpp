#pragma once

#include <string>

#include "base/registry.hpp"
#include "history/history.hpp"
#include "report/console.hpp"
#include "report/writers.hpp"

namespace dtrain::history {

std::string to_console(const History& history, const report::ConsoleStyle& style);
std::string to_plain_text(const History& history);
std::string to_markdown(const History& history);
std::string to_json(const History& history);         // dtrain.history/1
std::string to_csv(const History& history);          // a row a point
std::string to_html(const History& history);         // a page of its own
report::HtmlPart html_part(const History& history);  // the same in a result's page

struct Format {
  std::string file_name;  // history.json, ...; empty for console
  std::string (*render)(const History&);
};
const Registry<Format>& writers();  // console, json, csv, markdown, html

}  // namespace dtrain::history
