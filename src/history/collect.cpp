#include "history/collect.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/hash.hpp"

namespace dtrain::history {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t largest_result = 256u << 20;  // bytes: traces are larger, results are not

constexpr std::string_view any_result = "\"dtrain.result/";  // of any version

bool is_schema(const std::string& text) { return text.find("\"$schema\"") != std::string::npos; }

// Files of ours that are no results, by what they hold or by a name that the format fixes.
bool is_other_output(const fs::path& file, const std::string& text) {
  const std::string name = file.filename();
  return name == "bencher.json" || name == "github-action-benchmark.json" ||
         text.find("\"dtrain.") != std::string::npos || is_schema(text);
}

class Collector {
 public:
  void add(const fs::path& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      add_folder(path);
    } else {
      keep(path, report::read_result(path));
    }
  }

  Collection take() {
    std::stable_sort(found_.sources.begin(), found_.sources.end(),
                     [](const Source& a, const Source& b) { return a.result.created < b.result.created; });
    return std::move(found_);
  }

 private:
  void add_folder(const fs::path& folder) {
    std::vector<fs::path> files;
    std::error_code error;
    fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      std::error_code ignored;
      if (entry->path().extension() == ".json" && entry->is_regular_file(ignored))
        files.push_back(entry->path());
    }
    // A copy lies deeper than its original: the original gives the name.
    std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
      const auto depth = [](const fs::path& path) { return std::distance(path.begin(), path.end()); };
      return std::pair(depth(a), a) < std::pair(depth(b), b);
    });
    for (const auto& file : files) add_if_result(file);
    if (error) found_.skipped.push_back(fmt::format("{} ({})", folder.string(), error.message()));
  }

  void add_if_result(const fs::path& file) {
    const auto skip = [&](const std::string& why) {
      found_.skipped.push_back(fmt::format("{} ({})", file.string(), why));
    };
    std::error_code error;
    if (fs::file_size(file, error) > largest_result || error) return skip("too large, or unreadable");
    std::ifstream in(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (is_schema(text) || text.find(any_result) == std::string::npos) {
      if (!is_other_output(file, text)) skip("no result");
      return;
    }
    try {
      keep(file, report::read_result(file));
    } catch (const Error& problem) {
      const std::string what = problem.what();
      const std::string name = file.string() + ": ";
      skip(what.starts_with(name) ? what.substr(name.size()) : what);
    }
  }

  // The same result under two names counts once.
  void keep(const fs::path& file, report::Result result) {
    const std::string text = report::to_json(result);
    Hash hash;
    hash.add(std::span<const char>(text));
    if (seen_.insert(hash.value()).second) found_.sources.push_back({file.string(), std::move(result)});
  }

  Collection found_;
  std::set<std::uint64_t> seen_;
};

}  // namespace

Collection collect(const std::vector<std::string>& paths) {
  Collector collector;
  for (const auto& path : paths) {
    std::error_code error;
    if (!fs::exists(path, error))
      throw data_error(path + ": no such file", "give result files, or folders that hold some");
    collector.add(path);
  }
  Collection found = collector.take();
  if (found.sources.empty()) {
    throw data_error(fmt::format("{}: holds no result{}", fmt::join(paths, ", "),
                                 found.skipped.empty() ? "" : "; skipped " + found.skipped.front()),
                     "give a folder that `dtrain bench --out` wrote to");
  }
  return found;
}

}  // namespace dtrain::history
