#include "compare/formats.hpp"
#include "compare/tables.hpp"

namespace dtrain::compare {

namespace {

// A workflow command ends at the line's end, and % introduces an escape.
std::string message(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '%') {
      out += "%25";
    } else if (c == '\n') {
      out += "%0A";
    } else if (c == '\r') {
      out += "%0D";
    } else {
      out += c;
    }
  }
  return out;
}

const char* level(stats::Verdict verdict) {
  return verdict == stats::Verdict::worse         ? "error"
         : verdict == stats::Verdict::cannot_tell ? "warning"
                                                  : nullptr;
}

}  // namespace

std::string to_github(const Comparison& comparison) {
  std::string out;
  for (const auto& finding : comparison.findings) {
    if (const char* word = level(finding.judgement.verdict)) {
      out += fmt::format("::{} title=dtrain::{}\n", word, message(sentence(finding)));
    }
  }
  const char* word = comparison.outcome == Outcome::regression ? "error"
                     : comparison.outcome == Outcome::pass     ? "notice"
                                                               : "warning";
  return out + fmt::format("::{} title=dtrain::{}\n", word, message(comparison.headline));
}

}  // namespace dtrain::compare
