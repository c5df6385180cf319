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
bool is_copy(const fs::path& path, const fs::path& root) {
  const fs::path folder = path.parent_path();
  return folder != root && folder.filename() == "history" && fs::exists(folder.parent_path() / "result.json");
}

// What cannot be read inside the folder (lost+found) is passed by.
std::vector<fs::path> result_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    std::error_code unknown;
    const fs::path& path = entry->path();
    if (path.extension() == ".json" && entry->is_regular_file(unknown) && !is_copy(path, folder) &&
        looks_like_result(path)) {
      files.push_back(path);
    }
  }
  if (failure) {
    throw data_error(fmt::format("{}: cannot be read: {}", folder.string(), failure.message()),
                     "give a result.json, or a folder of results that this user can read");
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Side read_side(const std::string& path) {
  Side side;
  side.name = path;
  std::error_code unknown;
  if (!fs::is_directory(path, unknown) || fs::exists(fs::path(path) / "result.json", unknown)) {
    side.results.push_back(report::read_result(path));
    side.files.push_back(path);
    return side;
  }
  const fs::path folder = (fs::path(path) / "").parent_path();  // without a slash at its end
  for (const auto& file : result_files(folder)) {
    side.results.push_back(report::read_result(file));
    side.files.push_back(file.string());
  }
  if (side.results.empty()) {
    throw data_error(path + ": holds no result file",
                     "give a result.json, or a folder that `dtrain bench --out` wrote");
  }
  return side;
}

}  // namespace dtrain::compare
