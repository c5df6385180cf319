#include "predict/writers.hpp"

namespace dtrain::predict {

namespace {

std::string to_plain_text(const Prediction& prediction) { return to_console(prediction, {}); }

}  // namespace

const Registry<Format>& formats() {
  static const auto table = [] {
    Registry<Format> all("format of a prediction");
    all.add("console", "tables on the screen", {"", &to_plain_text});
    all.add("json", "everything, for programs: prediction.json", {"prediction.json", &to_json});
    all.add("markdown", "tables for a pull request: prediction.md", {"prediction.md", &to_markdown});
    all.add("html", "the curve in one offline file: prediction.html", {"prediction.html", &to_html});
    all.alias("md", "markdown");
    return all;
  }();
  return table;
}

}  // namespace dtrain::predict
