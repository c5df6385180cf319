#include "report/files.hpp"

#include <cctype>

#include "base/hash.hpp"
#include "base/output_file.hpp"
#include "report/writer.hpp"

namespace dtrain::report {

namespace fs = std::filesystem;

namespace {

// Writers that make a file, each once, in the order asked for.
std::vector<std::shared_ptr<const Writer>> file_writers(const std::vector<std::string>& formats) {
  std::vector<std::shared_ptr<const Writer>> found;
  for (const auto& format : formats) {
    const auto& writer = writers().at(format).value;
    if (writer->file_name().empty()) continue;
    if (std::find(found.begin(), found.end(), writer) == found.end()) found.push_back(writer);
  }
  return found;
}

}  // namespace

std::vector<std::string> default_formats() { return {"json", "csv", "markdown", "html"}; }

std::vector<fs::path> output_paths(const fs::path& folder, const std::vector<std::string>& formats) {
  std::vector<fs::path> paths;
  for (const auto& writer : file_writers(formats)) paths.push_back(folder / writer->file_name());
  return paths;
}

void open_outputs(const fs::path& folder, const std::vector<std::string>& formats) {
  const auto paths = output_paths(folder, formats);
  if (paths.empty()) return;
  require_writable_directory(folder);
  for (const auto& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      throw environment_error(path.string() + ": is a folder, where a file is to be written",
                              "move it away or give another folder with --out DIR");
    }
  }
}

std::vector<fs::path> write_outputs(const fs::path& folder, const std::vector<std::string>& formats,
                                    const Result& result) {
  std::vector<fs::path> paths;
  for (const auto& writer : file_writers(formats)) {
    paths.push_back(folder / writer->file_name());
    write_atomically(paths.back(), writer->render(result));
  }
  return paths;
}

fs::path keep_in_history(const fs::path& folder, const Result& result) {
  if (!result.samples.complete) return {};
  const std::string text = to_json(result);
  Hash hash;
  hash.add(std::span<const char>(text));
  std::string name;
  for (const char c : result.created) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-') name += c;
  }
  const fs::path path = folder / "history" / fmt::format("{}-{}.json", name, hash.hex().substr(0, 8));
  require_writable_directory(path.parent_path());
  write_atomically(path, text);
  return path;
}

}  // namespace dtrain::report
