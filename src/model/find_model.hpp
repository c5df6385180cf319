#pragma once

#include <string>

#include "model/model.hpp"

namespace dtrain::model {

// Whether this is the path of a model file, not a name of the zoo: it ends in .toml, or has a slash.
bool is_model_file(const std::string& name_or_path);

// Of the zoo or of a file; `--model` means this everywhere. Usage error for an unknown name, data error for a
// file that does not describe a model.
Model find_model(const std::string& name_or_path);

// 16 hexadecimal digits that tell what is computed: image, classes, operations with all their numbers, what
// reads what. Names do not count.
std::string fingerprint(const Model& model);

}  // namespace dtrain::model
