#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain::datasets {

struct FoundFiles {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> test;  // one, or none when a single file or glob was given
  std::string note;
};

// Turns what `--data` was given into files, without opening them. Data errors name what is missing, or what
// the folder seems to hold instead.
FoundFiles find_files(const std::string& data);

// A data error unless `path` is a regular file that can be read.
void require_readable_file(const std::filesystem::path& path);

}  // namespace dtrain::datasets
