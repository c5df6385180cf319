#pragma once

#include <string>

#include "model/model.hpp"

namespace dtrain::cli {

// One line a layer: what it does, what it reads, what it gives, its parameters.
std::string layer_table(const model::Model& model);

}  // namespace dtrain::cli
