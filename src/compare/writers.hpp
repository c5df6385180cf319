#pragma once

#include <memory>
#include <string>

#include "base/registry.hpp"
#include "compare/comparison.hpp"
#include "report/console.hpp"

namespace dtrain::compare {

// Turns a comparison into one file's content.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual std::string file_name() const = 0;  // empty: for the screen only
  virtual std::string render(const Comparison& comparison) const = 0;
};

// console, markdown, json, junit, github.
const Registry<std::shared_ptr<const Writer>>& writers();

// With the arithmetic of every answer, where it is asked for.
std::string render_console(const Comparison& comparison, const report::ConsoleStyle& style, bool explain);

}  // namespace dtrain::compare
