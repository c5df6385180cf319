#include <algorithm>
#include <nlohmann/json.hpp>

#include "compare/formats.hpp"
#include "compare/tables.hpp"
#include "report/html_text.hpp"

namespace dtrain::compare {

namespace {

using stats::Verdict;

constexpr std::string_view unknown = "\xef\xbf\xbd";  // U+FFFD, the replacement character

// Names of files are any bytes.
std::string as_utf8(const std::string& text) {
  using Json = nlohmann::json;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

// XML 1.0 has no way to write control characters, U+FFFE and U+FFFF, not even as references.
std::string attribute(const std::string& text) {
  std::string valid = as_utf8(text);
  std::ranges::replace_if(
      valid, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  for (const std::string_view none : {"\xef\xbf\xbe", "\xef\xbf\xbf"}) {
    for (auto at = valid.find(none); at != std::string::npos; at = valid.find(none, at)) {
      valid.replace(at, none.size(), unknown);
    }
  }
  return report::html_escaped(valid);
}

struct Case {
  std::string group;
  std::string title;
  std::string problem;  // XML element: failure, error; empty = it passed
  std::string text;
};

Case case_of(const Finding& finding) {
  const Verdict verdict = finding.judgement.verdict;
  const char* problem = verdict == Verdict::worse         ? "failure"
                        : verdict == Verdict::cannot_tell ? "error"
                                                          : "";
  return {finding.configuration, finding.metric, problem, sentence(finding)};
}

std::vector<Case> cases_of(const Comparison& comparison) {
  std::vector<Case> cases;
  if (comparison.outcome == Outcome::cannot_compare) {
    cases.push_back({"comparison", "same work", "error", comparison.headline});
  }
  for (const auto& finding : comparison.findings) cases.push_back(case_of(finding));
  for (const auto& id : comparison.missing) {
    cases.push_back({id, "measured", "error", "the new side did not measure it"});
  }
  return cases;
}

}  // namespace

std::string to_junit(const Comparison& comparison) {
  const auto cases = cases_of(comparison);
  const auto count = [&](std::string_view problem) {
    return std::count_if(cases.begin(), cases.end(), [&](const Case& one) { return one.problem == problem; });
  };
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"dtrain\" tests=\"{0}\" failures=\"{1}\" errors=\"{2}\" time=\"0\">\n"
      "  <testsuite name=\"dtrain compare\" tests=\"{0}\" failures=\"{1}\" errors=\"{2}\" skipped=\"0\" "
      "time=\"0\">\n",
      cases.size(), count("failure"), count("error"));
  for (const auto& one : cases) {
    out += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\">\n", attribute(one.group),
                       attribute(one.title));
    if (one.problem.empty()) {
      out += fmt::format("      <system-out>{}</system-out>\n", attribute(one.text));
    } else {
      out += fmt::format("      <{0} type=\"{1}\" message=\"{2}\">{2}</{0}>\n", one.problem,
                         one.problem == "failure" ? "regression" : "undecided", attribute(one.text));
    }
    out += "    </testcase>\n";
  }
  return out + "  </testsuite>\n</testsuites>\n";
}

}  // namespace dtrain::compare
