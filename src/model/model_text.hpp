#pragma once

#include <filesystem>
#include <string>

namespace dtrain::model {

// All of a model file, as it is written. Data error for what cannot be one: a folder, a file that is not
// there, empty, larger than 1 MiB or no text.
std::string read_model_text(const std::filesystem::path& file);

}  // namespace dtrain::model
