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
  // Fixed: result.json, result.csv, result.md, report.html, bencher.json, ...; empty for console, which makes
  // no file.
  virtual std::string file_name() const = 0;
  virtual std::string render(const Result& result) const = 0;
};

// console, json, csv, markdown, html; and for services: github-action-benchmark, bencher.
const Registry<std::shared_ptr<const Writer>>& writers();

}  // namespace dtrain::report
