#include "model/file_section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::model {

namespace {

// What a file says may be anything.
std::string one_line(std::string text) {
  constexpr std::size_t longest = 400;
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

std::size_t line_of(const toml::node& node) { return node.source().begin.line; }

}  // namespace

std::string suggestion(const std::string& word, const Names& known) {
  const auto close = nearest(word, known);
  return (close ? fmt::format("did you mean '{}'? ", *close) : std::string()) + "known: " + join(known, ", ");
}

void FileSection::fail(std::size_t line, const std::string& what, const std::string& advice) const {
  const std::string place = line == 0 ? file_ : fmt::format("{}:{}", file_, line);
  const std::string label = label_.empty() ? "" : label_ + ": ";
  throw data_error(one_line(fmt::format("{}: {}{}", place, label, what)), one_line(advice));
}

void FileSection::fail(const char* key, const std::string& what, const std::string& advice) const {
  fail(has(key) ? line_of(*table_->get(key)) : line(), what, advice);
}

void FileSection::require_known(const Names& known) const {
  for (const auto& [key, node] : *table_) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fail(line_of(node), fmt::format("unknown key '{}'", name), suggestion(name, known));
  }
}

std::string FileSection::text(const char* key, const std::optional<std::string>& otherwise) const {
  const std::string wanted = "a word in quotes";
  const toml::node* node = find(key, otherwise.has_value(), wanted);
  if (node == nullptr) return *otherwise;
  if (!node->is_string()) wrong(*node, key, wanted);
  return **node->as_string();
}

int FileSection::whole(const char* key, std::optional<int> otherwise, int low, int high) const {
  const std::string wanted = fmt::format("a whole number from {} to {}", low, high);
  const toml::node* node = find(key, otherwise.has_value(), wanted);
  if (node == nullptr) return *otherwise;
  const auto* value = node->as_integer();
  if (value == nullptr || **value < low || **value > high) wrong(*node, key, wanted);
  return static_cast<int>(**value);
}

float FileSection::number(const char* key, float otherwise, float low, float high) const {
  const std::string wanted = fmt::format("a number from {} to {}", low, high);
  const toml::node* node = find(key, true, wanted);
  if (node == nullptr) return otherwise;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (!value || !(*value >= low && *value <= high)) wrong(*node, key, wanted);
  return static_cast<float>(*value);
}

bool FileSection::yes(const char* key, bool otherwise) const {
  const toml::node* node = find(key, true, "");
  if (node == nullptr) return otherwise;
  if (!node->is_boolean()) wrong(*node, key, "true or false");
  return **node->as_boolean();
}

Names FileSection::words(const char* key) const {
  const std::string wanted = "names of layers, such as [\"conv1\"]";
  const toml::node* node = find(key, false, wanted);
  if (!node->is_array()) wrong(*node, key, wanted);
  Names names;
  for (const auto& each : *node->as_array()) {
    if (!each.is_string()) wrong(each, key, wanted);
    names.push_back(**each.as_string());
  }
  return names;
}

std::vector<const toml::table*> FileSection::tables(const char* key) const {
  const std::string wanted = "layers, each after a line [[layer]]";
  const toml::node* node = find(key, false, wanted);
  if (!node->is_array()) wrong(*node, key, wanted);
  std::vector<const toml::table*> found;
  for (const auto& each : *node->as_array()) {
    if (!each.is_table()) wrong(each, key, wanted);
    found.push_back(each.as_table());
  }
  return found;
}

const toml::node* FileSection::find(const char* key, bool may_miss, const std::string& wanted) const {
  const toml::node* node = table_->get(key);
  if (node == nullptr && !may_miss)
    fail(line(), fmt::format("has no {}", key), fmt::format("add {} = {}", key, wanted));
  return node;
}

void FileSection::wrong(const toml::node& node, const char* key, const std::string& wanted) const {
  std::ostringstream shown;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>)
      shown << value;
    else
      shown << "of the kind " << value.type();
  });
  fail(line_of(node), fmt::format("{} is {}", key, shown.str()), fmt::format("{} must be {}", key, wanted));
}

}  // namespace dtrain::model
