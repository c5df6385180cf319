#pragma once

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "compare/comparison.hpp"

namespace dtrain::cli {

// How a comparison is judged and shown: the flags that the commands which compare share.
struct ComparisonFlags {
  compare::Config config;
  std::vector<std::string> formats{"console"};
  std::string out;  // empty: on the screen only
  bool explain = false;
};

void declare_comparison_flags(Flags& flags, ComparisonFlags& target);

// Usage error for more than one format on the screen; environment error where files could not be written.
void check_comparison_output(const ComparisonFlags& flags);

// Shows it, or writes its files, and both where --out is given.
void deliver_comparison(const compare::Comparison& comparison, const ComparisonFlags& flags);

// comparison.md, comparison.json and comparison.xml.
void write_comparison_files(const compare::Comparison& comparison, const std::string& folder,
                            const std::vector<std::string>& formats);

}  // namespace dtrain::cli
