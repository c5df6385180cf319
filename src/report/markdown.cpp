#include "report/findings.hpp"
#include "report/format.hpp"
#include "report/hardware.hpp"
#include "report/markdown_text.hpp"
#include "report/tables.hpp"
#include "report/writers.hpp"

namespace dtrain::report {

std::string to_markdown(const Result& result) {
  std::string out =
      fmt::format("## dtrain: {}\n\n", markdown_text(result.model.name + ", " + result.options.strategy));
  if (!result.summary.verdict.empty())
    out += fmt::format("**{}**\n\n", markdown_text(result.summary.verdict));
  for (const auto& caveat : caveats(result)) out += fmt::format("> {}\n\n", markdown_text(caveat));
  out += markdown_table(choice_table(result));
  out += markdown_table(scaling_table(result));
  out += markdown_table(budget_table(result));
  out += markdown_table(exchange_table(result));
  out += markdown_table(fact_table(result));
  out += markdown_table(memory_table(result));
  out += markdown_table(evaluation_table(result));
  std::vector<std::string> findings = straggler_lines(result);
  if (const auto line = agreement_line(result); !line.empty()) findings.push_back("Weights: " + line);
  for (const auto& fact : hardware_facts(result)) findings.push_back(fact.label + ": " + fact.value);
  if (const auto line = measuring_line(result); !line.empty())
    findings.push_back("Cost of measuring: " + line);
  out += markdown_list("Findings", findings);
  out += markdown_list("Failed", failure_lines(result));
  out += markdown_list("Warnings", cautions(result));
  out += markdown_list("Notes", note_lines(result));
  std::vector<Fact> all = {{"command", result.command}};
  for (const auto& more : {command_facts(result), machine_facts(result)})
    all.insert(all.end(), more.begin(), more.end());
  out += fmt::format("<details><summary>What was measured, and on what</summary>\n\n{}</details>\n",
                     markdown_facts(all));
  return out;
}

}  // namespace dtrain::report
