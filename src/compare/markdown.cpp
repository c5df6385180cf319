#include "compare/formats.hpp"
#include "compare/tables.hpp"
#include "report/markdown_text.hpp"

namespace dtrain::compare {

using report::markdown_text;

std::string to_markdown(const Comparison& comparison) {
  std::string out = fmt::format("## dtrain: {}\n\n**{}**\n\n", name(comparison.outcome),
                                markdown_text(comparison.headline));
  if (comparison.forced) out += "> Forced: the two sides did not do the same work on the same machine.\n\n";
  out += report::markdown_table(finding_table(comparison));
  out += report::markdown_list("Remarks", remarks(comparison));
  out += report::markdown_table(difference_table(comparison));
  return out +
         fmt::format("<details><summary>What was compared</summary>\n\n- base {}\n- new {}\n\n</details>\n",
                     markdown_text(describe(comparison.base)), markdown_text(describe(comparison.next)));
}

}  // namespace dtrain::compare
