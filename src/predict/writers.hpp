#pragma once

#include <string>

#include "base/registry.hpp"
#include "predict/prediction.hpp"
#include "report/console.hpp"

namespace dtrain::predict {

std::string to_console(const Prediction& prediction, const report::ConsoleStyle& style);
std::string to_json(const Prediction& prediction);  // dtrain.prediction/1, docs/predict.md
std::string to_markdown(const Prediction& prediction);
std::string to_html(const Prediction& prediction);  // one offline file

struct Format {
  std::string file;  // empty: it makes none
  std::string (*render)(const Prediction& prediction) = nullptr;
};

// console, json, markdown, html.
const Registry<Format>& formats();

}  // namespace dtrain::predict
