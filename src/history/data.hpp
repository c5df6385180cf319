#pragma once

#include "history/history.hpp"
#include "report/archive.hpp"

namespace dtrain::history {

report::Json to_node(const History& history);  // dtrain.history/1

}  // namespace dtrain::history
