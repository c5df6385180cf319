#pragma once

#include <memory>
#include <string>

#include "base/registry.hpp"
#include "report/result.hpp"

namespace dtrain::report {

// Turns a result into one file's content.
class Writer {
 public:
  virtual ~Writer() = default;
  // Fixed: result.json, result.csv, result.md, report.html; empty for console, which makes no file.
  virtual std::string file_name() const = 0;
  virtual std::string render(const Result& result) const = 0;
};

// json, csv, markdown, html, console.
const Registry<std::shared_ptr<const Writer>>& writers();

}  // namespace dtrain::report
