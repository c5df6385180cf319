#include "config/tf_config.hpp"

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::config {

namespace {

using nlohmann::json;

constexpr const char* form =
    R"(write it as {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}, or unset TF_CONFIG)";

[[noreturn]] void fail(const std::string& what, const std::string& advice = form) {
  throw usage_error("TF_CONFIG: " + what, advice);
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

std::string quoted(const std::vector<std::string>& keys) {
  return keys.empty() ? "no keys" : "'" + join(keys, "', '") + "'";
}

const json& member(const json& object, const std::string& key, const std::string& where) {
  if (object.contains(key)) return object.at(key);
  const auto keys = keys_of(object);
  const auto close = nearest(key, keys);
  fail(fmt::format("'{}{}' is missing; found {}", where, key, quoted(keys)),
       (close ? fmt::format("did you mean '{}' where it says '{}'? ", key, *close) : std::string()) + form);
}

void require_object(const json& value, const std::string& what) {
  if (!value.is_object()) fail(fmt::format("{} is not an object but {}", what, value.type_name()));
}

void add(ClusterSpec& cluster, const std::string& role, int index, const json& address) {
  if (!address.is_string()) {
    fail(fmt::format("{} {} is not an address but {}", role, index, address.type_name()));
  }
  cluster.add(role, index, address.get<std::string>());
}

int index_of(const std::string& role, const std::string& key) {
  int index = -1;
  const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error == std::errc() && stop == key.data() + key.size() && index >= 0) return index;
  fail(fmt::format("cluster.{} has the index '{}', which is not a number", role, key));
}

// Dense from a list, sparse from a map.
void add_role(ClusterSpec& cluster, const std::string& role, const json& value) {
  cluster.require_role(role, "cluster");
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) add(cluster, role, static_cast<int>(i), value[i]);
  } else if (value.is_object()) {
    for (const auto& [key, address] : value.items()) add(cluster, role, index_of(role, key), address);
  } else {
    fail(fmt::format("cluster.{} is neither a list nor a map of addresses but {}", role, value.type_name()));
  }
}

// A key that is there twice would silently hide the first.
json parse_json(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) fail("it is set but empty");
  std::vector<std::set<std::string>> open;
  const auto watch = [&open](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second) {
      fail(fmt::format("the key '{}' is there twice", parsed.get<std::string>()));
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::parse_error& error) {
    fail(fmt::format("not valid JSON at character {}", error.byte));
  }
}

ClusterSpec read_cluster(const json& value) {
  require_object(value, "'cluster'");
  ClusterSpec cluster("TF_CONFIG");
  for (const auto& [role, addresses] : value.items()) add_role(cluster, role, addresses);
  cluster.require_whole();
  return cluster;
}

}  // namespace

ClusterPlace parse_tf_config(const std::string& text) {
  const json document = parse_json(text);
  require_object(document, "it");
  const ClusterSpec cluster = read_cluster(member(document, "cluster", ""));
  const json& task = member(document, "task", "");
  require_object(task, "'task'");

  const json& type = member(task, "type", "task.");
  if (!type.is_string()) fail(fmt::format("task.type is not a string but {}", type.type_name()));
  const std::string role = type.get<std::string>();
  cluster.require_role(role, "task.type");

  const json& index = member(task, "index", "task.");
  if (!index.is_number_integer()) fail(fmt::format("task.index is not a whole number but {}", index.dump()));
  ClusterPlace place = cluster.place(role, index.get<std::int64_t>());
  place.source = "TF_CONFIG";
  return place;
}

}  // namespace dtrain::config
