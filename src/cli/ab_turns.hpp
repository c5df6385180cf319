#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "launch/signals.hpp"
#include "report/result.hpp"

namespace dtrain::cli {

// One of two programs, or of two command lines, that are run in turns.
struct Contender {
  std::string name;  // base, new
  std::filesystem::path program;
  std::vector<std::string> command;  // bench and its flags
  bool bases = true;                 // its command says whether they are measured; else they are left out
};

// What a contender is given unless its command says otherwise: one short round, because every pair is a
// sample and many pairs tell more than long ones.
inline constexpr const char* ab_rounds = "1";
inline constexpr const char* ab_min_time = "600ms";
inline constexpr const char* ab_warmup = "5";

// A program by its path or, without a slash, from PATH. Environment error when it cannot be run.
std::filesystem::path find_program(const std::string& name);

// Whether the program's bench can leave out the runs that efficiency is held against: older ones cannot.
bool knows_no_bases(const Contender& contender, launch::Signals& signals);

// Runs it once, its files in `folder`, and reads its result, of which only what a comparison needs is kept.
// Interrupted when this process was asked to end; environment or run errors, with the program's own words,
// when it failed; run error at the deadline.
report::Result run_contender(const Contender& contender, const std::filesystem::path& folder,
                             launch::Signals& signals, Deadline deadline);

}  // namespace dtrain::cli
