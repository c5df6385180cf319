#pragma once

#include <string>
#include <vector>

#include "report/result.hpp"

namespace dtrain::history {

struct Source {
  std::string file;
  report::Result result;
};

struct Collection {
  std::vector<Source> sources;       // each result once, oldest first
  std::vector<std::string> skipped;  // "notes.json (no result)": what a folder holds beside results
};

// All results among files, and at any depth in folders: dtrain's, other tools' and baselines. Links to
// folders are not followed. What is no result, or cannot be read as one, is skipped in a folder, and is a
// data error where it was named.
// Data error where nothing is left.
Collection collect(const std::vector<std::string>& paths);

}  // namespace dtrain::history
