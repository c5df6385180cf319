#include <fstream>

#include "compare/comparison.hpp"

namespace dtrain::compare {

namespace fs = std::filesystem;

namespace {

// Other JSON files may lie in the folder, too.
bool looks_like_result(const fs::path& path) {
  std::ifstream file(path);
  std::string head(4096, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find(report::Result::schema) != std::string::npos;
}

// `bench` and `train` leave a copy of each result below it.
bool is_copy(const fs::path& path) {
  const fs::path folder = path.parent_path();
  return folder.filename() == "history" && fs::exists(folder.parent_path() / "result.json");
}

std::vector<fs::path> result_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".json" && !is_copy(entry.path()) &&
        looks_like_result(entry.path())) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Side read_side(const std::string& path) {
  Side side;
  side.name = path;
  if (!fs::is_directory(path) || fs::exists(fs::path(path) / "result.json")) {
    side.results.push_back(report::read_result(path));
    return side;
  }
  for (const auto& file : result_files(path)) side.results.push_back(report::read_result(file));
  if (side.results.empty()) {
    throw data_error(path + ": holds no result file",
                     "give a result.json, or a folder that `dtrain bench --out` wrote");
  }
  return side;
}

}  // namespace dtrain::compare
