#include "model/model_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::model {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t most_bytes = 1 << 20;

[[noreturn]] void refuse(const std::string& place, const std::string& what) {
  throw data_error(fmt::format("{} {}", place, what),
                   "give --model a name of the table in `dtrain bench --help`, or a TOML file of layers");
}

void require_file(const fs::path& file) {
  const std::string name = file.string() + ":";
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found) refuse(name, "there is no such file");
  if (fs::is_directory(status)) refuse(name, "is a folder, where a model file is needed");
  if (!fs::is_regular_file(status)) refuse(name, "is not a file that can be read");
  const std::uintmax_t size = fs::file_size(file, error);
  if (!error && size > most_bytes) {
    refuse(name,
           fmt::format("has {}, where a model file has {} at most", format_bytes(static_cast<double>(size)),
                       format_bytes(static_cast<double>(most_bytes))));
  }
}

}  // namespace

std::string read_model_text(const fs::path& file) {
  require_file(file);
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream.is_open() || stream.bad()) refuse(file.string() + ":", "cannot be read");
  const auto zero = std::find(text.begin(), text.end(), '\0');
  if (zero != text.end()) {
    const auto line = 1 + std::count(text.begin(), zero, '\n');
    refuse(fmt::format("{}:{}:", file.string(), line), "has a zero byte, so that it is no text");
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) refuse(file.string() + ":", "is empty");
  return text;
}

}  // namespace dtrain::model
