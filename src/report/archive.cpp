#include "report/archive.hpp"

namespace dtrain::report {

void Loader::fail(const std::string& path, const std::string& what) const {
  throw data_error(fmt::format("{}: {}: {}", file_, path.empty() ? "(top)" : path, what),
                   "the file is damaged or not of this schema (results/README.md): measure again");
}

const Json* Loader::find(const std::string& key, Need need) const {
  const auto found = node_.find(key);
  if (found != node_.end()) return &*found;
  if (need == Need::required) fail(path_of(key), "is missing");
  return nullptr;
}

std::string Loader::wrong_type(const Json& found, std::string_view wanted) {
  std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 40) shown = std::string(found.type_name());
  return fmt::format("is {}, must be {}", shown, wanted);
}

void Loader::read(const Json& found, const std::string& key, bool& value, Range) const {
  if (!found.is_boolean()) fail(path_of(key), wrong_type(found, "true or false"));
  value = found.get<bool>();
}

void Loader::read(const Json& found, const std::string& key, std::string& value, Range) const {
  if (!found.is_string()) fail(path_of(key), wrong_type(found, "text"));
  value = found.get<std::string>();
}

void Loader::read(const Json& found, const std::string& key, double& value, Range range) const {
  if (found.is_null() && range == Range::any) {
    value = why_not_finite(key).value_or(std::numeric_limits<double>::quiet_NaN());
    return;
  }
  if (!found.is_number()) fail(path_of(key), wrong_type(found, "a number"));
  value = found.get<double>();
  check(key, value, range);
}

std::optional<double> Loader::why_not_finite(const std::string& key) const {
  const auto reason = node_.find(key + "_reason");
  if (reason == node_.end() || !reason->is_string()) return std::nullopt;
  const auto& text = reason->get_ref<const std::string&>();
  if (text == not_a_number) return std::numeric_limits<double>::quiet_NaN();
  if (text == infinite) return std::numeric_limits<double>::infinity();
  if (text == minus_infinite) return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

void Loader::check(const std::string& key, double value, Range range) const {
  if (range == Range::positive && !(value > 0.0)) {
    fail(path_of(key), fmt::format("is {}, must be above 0", value));
  }
  if (range == Range::not_negative && !(value >= 0.0)) {
    fail(path_of(key), fmt::format("is {}, must not be negative", value));
  }
}

}  // namespace dtrain::report
