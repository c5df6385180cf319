#include "report/json_text.hpp"

namespace dtrain::report {

namespace {

bool fits_a_line(const Json& json) {
  if (!json.is_structured() || json.empty()) return true;
  return json.is_array() &&
         std::none_of(json.begin(), json.end(), [](const Json& entry) { return entry.is_structured(); });
}

void append(std::string& out, const Json& json, std::size_t depth) {
  const auto line = [](const Json& plain) {
    return plain.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  if (fits_a_line(json)) {
    out += line(json);
    return;
  }
  out += json.is_object() ? "{\n" : "[\n";
  bool first = true;
  for (const auto& [key, entry] : json.items()) {
    if (!first) out += ",\n";
    first = false;
    out.append(2 * (depth + 1), ' ');
    if (json.is_object()) out += line(Json(key)) + ": ";
    append(out, entry, depth + 1);
  }
  out += '\n';
  out.append(2 * depth, ' ');
  out += json.is_object() ? '}' : ']';
}

}  // namespace

std::string to_text(const Json& json) {
  std::string out;
  append(out, json, 0);
  return out + "\n";
}

}  // namespace dtrain::report
