#include <algorithm>
#include <fstream>

#include "compare/comparison.hpp"

namespace dtrain::compare {

namespace fs = std::filesystem;

namespace {

std::string head_of(const fs::path& path) {
  std::ifstream file(path);
  std::string head(4096, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

bool is_schema(const std::string& head) { return head.find("\"$schema\"") != std::string::npos; }

// Of any version: one that cannot be read has to be said, not left out.
bool is_result(const std::string& head) {
  return !is_schema(head) && head.find("\"dtrain.result/") != std::string::npos;
}

// Other output of ours, which lies beside results.
bool is_expected(const fs::path& path, const std::string& head) {
  const std::string name = path.filename();
  return is_schema(head) || name == "bencher.json" || name == "github-action-benchmark.json" ||
         head.find("\"dtrain.") != std::string::npos;
}

// `bench` and `train` leave a copy of each result below it.
bool is_copy(const fs::path& path, const fs::path& root) {
  const fs::path folder = path.parent_path();
  return folder != root && folder.filename() == "history" && fs::exists(folder.parent_path() / "result.json");
}

struct Found {
  std::vector<fs::path> results;
  std::vector<std::string> others;
};

// A folder inside that cannot be read (lost+found) is passed by.
Found find_files(const fs::path& folder) {
  Found found;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    std::error_code unknown;
    const fs::path& path = entry->path();
    if (path.extension() != ".json" || !entry->is_regular_file(unknown) || is_copy(path, folder)) continue;
    const std::string head = head_of(path);
    if (is_result(head)) {
      found.results.push_back(path);
    } else if (!is_expected(path, head)) {
      found.others.push_back(path.string());
    }
  }
  if (failure) {
    throw data_error(fmt::format("{}: cannot be read: {}", folder.string(), failure.message()),
                     "give a result.json, or a folder of results that this user can read");
  }
  std::ranges::sort(found.results);
  std::ranges::sort(found.others);
  return found;
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
  Found found = find_files(folder);
  side.passed_by = std::move(found.others);
  for (const auto& file : found.results) {
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
