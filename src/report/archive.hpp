#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

// Two archives walk the same description of the fields (result_fields.hpp): the Saver builds the JSON, the
// Loader checks it and fills the values in.
namespace dtrain::report {

using Json = nlohmann::ordered_json;

enum class Need { required, optional };
enum class Range { any, finite, not_negative, positive };  // what a loaded number must be

inline constexpr std::string_view not_a_number = "not a number";
inline constexpr std::string_view infinite = "infinite";
inline constexpr std::string_view minus_infinite = "minus infinite";

class Saver {
 public:
  static constexpr bool saving = true;
  explicit Saver(Json& node) : node_(node) {}

  template <class T>
  void value(const std::string& key, const T& value, Need = Need::required, Range = Range::any) {
    node_[key] = value;
  }
  void value(const std::string& key, const double& value, Need = Need::required, Range = Range::any) {
    node_[key] = std::isfinite(value) ? Json(value) : Json(nullptr);
    if (!std::isfinite(value)) node_[key + "_reason"] = why_not_finite(value);
  }
  void value(const std::string& key, const std::vector<double>& values, Need = Need::required,
             Range = Range::any) {
    Json& array = node_[key] = Json::array();
    std::size_t gaps = 0;
    for (const double value : values) {
      array.push_back(std::isfinite(value) ? Json(value) : Json(nullptr));
      if (!std::isfinite(value)) ++gaps;
    }
    if (gaps > 0)
      node_[key + "_reason"] = fmt::format("null where not finite: {} of {}", gaps, values.size());
  }
  // None is null; `why` says why unless null has a meaning of its own (an option that was not given).
  template <class T>
  void value(const std::string& key, const std::optional<T>& value, std::string_view why = {}) {
    if (value) return this->value(key, *value);
    node_[key] = nullptr;
    if (!why.empty()) node_[key + "_reason"] = why;
  }
  // A value kept as text: to_text(value) and from_text(text).
  template <class T, class ToText, class FromText>
  void text(const std::string& key, const T& value, ToText to_text, FromText, Need = Need::required) {
    node_[key] = to_text(value);
  }
  template <class Fields>
  void object(const std::string& key, Fields fields, Need = Need::required) {
    Saver inner(node_[key] = Json::object());
    fields(inner);
  }
  // `fields(archive, index)` describes one entry.
  template <class Fields>
  void list(const std::string& key, std::size_t count, Fields fields, Need = Need::required) {
    Json& array = node_[key] = Json::array();
    for (std::size_t i = 0; i < count; ++i) {
      Saver inner(array.emplace_back(Json::object()));
      fields(inner, i);
    }
  }
  void null(const std::string& key, std::string_view why) {
    node_[key] = nullptr;
    node_[key + "_reason"] = why;
  }

 private:
  static std::string_view why_not_finite(double value) {
    if (std::isnan(value)) return not_a_number;
    return value > 0.0 ? infinite : minus_infinite;
  }

  Json& node_;
};

class Loader {
 public:
  static constexpr bool saving = false;
  Loader(const Json& node, const std::string& file, std::string path)
      : node_(node), file_(file), path_(std::move(path)) {
    if (!node.is_object()) fail(path_, wrong_type(node, "an object"));
  }

  template <class T>
  void value(const std::string& key, T& value, Need need = Need::required, Range range = Range::any) {
    if (const Json* found = find(key, need)) read(*found, key, value, range);
  }
  template <class T>
  void value(const std::string& key, std::optional<T>& value, std::string_view = {}) {
    value.reset();
    const Json* found = find(key, Need::optional);
    if (found == nullptr || (found->is_null() && !why_not_finite(key))) return;
    read(*found, key, value.emplace(), Range::any);
  }
  template <class T, class ToText, class FromText>
  void text(const std::string& key, T& value, ToText, FromText from_text, Need need = Need::required) {
    const Json* found = find(key, need);
    if (found == nullptr) return;
    std::string word;
    read(*found, key, word, Range::any);
    try {
      value = from_text(word);
    } catch (const Error& error) {
      fail(path_of(key), error.what());
    }
  }
  template <class Fields>
  void object(const std::string& key, Fields fields, Need need = Need::required) {
    const Json* found = find(key, need);
    if (found == nullptr || (found->is_null() && need == Need::optional)) return;
    Loader inner(*found, file_, path_of(key));
    fields(inner);
  }
  template <class Fields>
  void list(const std::string& key, std::size_t, Fields fields, Need need = Need::required) {
    const Json* found = find(key, need);
    if (found == nullptr) return;
    if (!found->is_array()) fail(path_of(key), wrong_type(*found, "an array"));
    for (std::size_t i = 0; i < found->size(); ++i) {
      Loader inner((*found)[i], file_, fmt::format("{}[{}]", path_of(key), i));
      fields(inner, i);
    }
  }
  const Json* find(const std::string& key, Need need) const;
  [[noreturn]] void fail(const std::string& path, const std::string& what) const;
  std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  static std::string wrong_type(const Json& found, std::string_view wanted);

 private:
  void read(const Json& found, const std::string& key, bool& value, Range) const;
  void read(const Json& found, const std::string& key, std::string& value, Range) const;
  void read(const Json& found, const std::string& key, double& value, Range range) const;
  template <std::integral T>
  void read(const Json& found, const std::string& key, T& value, Range range) const {
    if (!found.is_number_integer()) fail(path_of(key), wrong_type(found, "a whole number"));
    const bool fits = found.is_number_unsigned() ? std::in_range<T>(found.get<std::uint64_t>())
                                                 : std::in_range<T>(found.get<std::int64_t>());
    if (!fits) fail(path_of(key), fmt::format("is {}, which is out of range", found.dump()));
    value = found.get<T>();
    check(key, static_cast<double>(value), range);
  }
  template <class T>
  void read(const Json& found, const std::string& key, std::vector<T>& values, Range range) const {
    if (!found.is_array()) fail(path_of(key), wrong_type(found, "an array"));
    values.clear();
    for (std::size_t i = 0; i < found.size(); ++i) {
      T value{};
      read(found[i], fmt::format("{}[{}]", key, i), value, range);
      values.push_back(std::move(value));
    }
  }
  std::optional<double> why_not_finite(const std::string& key) const;
  void check(const std::string& key, double value, Range range) const;

  const Json& node_;
  const std::string& file_;
  std::string path_;
};

}  // namespace dtrain::report
