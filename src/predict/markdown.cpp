#include "predict/tables.hpp"
#include "predict/writers.hpp"
#include "report/markdown_text.hpp"

namespace dtrain::predict {

std::string to_markdown(const Prediction& prediction) {
  using namespace report;
  std::string out = fmt::format("## dtrain prediction: {}, {}\n\n", markdown_text(prediction.source.model),
                                markdown_text(prediction.source.strategy));
  if (!prediction.refusal.empty()) return out + markdown_text(refusal_line(prediction)) + "\n";
  out += fmt::format("**{}**\n\n", markdown_text(prediction.verdict));
  for (const Table& table : {estimate_table(prediction), check_table(prediction), limit_table(prediction),
                             gain_table(prediction)}) {
    out += markdown_table(table);
  }
  out += markdown_list("Notes", prediction.notes);
  return out + markdown_facts(source_facts(prediction));
}

}  // namespace dtrain::predict
