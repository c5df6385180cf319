#include "config/tf_config.hpp"

#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::config {

namespace {

using nlohmann::json;

constexpr std::array roles{"chief", "worker", "ps"};
constexpr const char* evaluator = "evaluator";  // watches a cluster without being in it
constexpr const char* form =
    R"(write it as {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}, or unset TF_CONFIG)";

[[noreturn]] void fail(const std::string& what, const std::string& advice = form) {
  throw usage_error("TF_CONFIG: " + what, advice);
}

std::string keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back("'" + key + "'");
  return keys.empty() ? "no keys" : join(keys, ", ");
}

const json& member(const json& object, const std::string& key, const std::string& where) {
  if (!object.contains(key)) fail(fmt::format("'{}{}' is missing; found {}", where, key, keys_of(object)));
  return object.at(key);
}

void require_object(const json& value, const std::string& what) {
  if (!value.is_object()) fail(fmt::format("{} is not an object but {}", what, value.type_name()));
}

void require_known_role(const std::string& role, const std::string& where, bool evaluator_too) {
  std::vector<std::string> known(roles.begin(), roles.end());
  if (evaluator_too) known.emplace_back(evaluator);
  if (std::find(known.begin(), known.end(), role) != known.end()) return;
  const auto close = nearest(role, known);
  fail(fmt::format("unknown role '{}' in {}", role, where),
       (close ? fmt::format("did you mean '{}'? ", *close) : std::string()) + "known: " + join(known, ", "));
}

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

void require_address(const std::string& address, const std::string& owner) {
  const std::string advice = "give host:port with a port from 1 to 65535, such as 10.0.0.1:2222";
  const auto refuse = [&](const std::string& why) {
    fail(fmt::format("{} has the address '{}': {}", owner, address, why), advice);
  };
  if (address.find("://") != std::string::npos) refuse("it is a URL, not host:port");
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) refuse("it has no port");
  const std::string host = address.substr(0, colon);
  if (host.empty()) refuse("it has no host");
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (host.find(':') != std::string::npos && !bracketed) refuse("an IPv6 host belongs in brackets");
  if (host.find_first_of(" \t\n/") != std::string::npos) refuse("its host is not a name");
  const auto port = whole_number(address.substr(colon + 1));
  if (!port) refuse("its port is not a number");
  if (*port < 1 || *port > 65535) refuse("its port is not from 1 to 65535");
}

// Addresses of one role, by index: dense from a list, sparse from a map.
std::map<int, std::string> addresses_of(const json& value, const std::string& role) {
  std::map<int, std::string> addresses;
  const auto add = [&](int index, const json& address) {
    if (!address.is_string()) {
      fail(fmt::format("{} {} is not an address but {}", role, index, address.type_name()));
    }
    addresses[index] = address.get<std::string>();
  };
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) add(static_cast<int>(i), value[i]);
  } else if (value.is_object()) {
    for (const auto& [key, address] : value.items()) {
      const auto index = whole_number(key);
      if (!index || *index < 0)
        fail(fmt::format("cluster.{} has the index '{}', which is not a number", role, key));
      add(*index, address);
    }
  } else {
    fail(fmt::format("cluster.{} is neither a list nor a map of addresses but {}", role, value.type_name()));
  }
  return addresses;
}

using Cluster = std::map<std::string, std::map<int, std::string>>;

Cluster read_cluster(const json& cluster) {
  require_object(cluster, "'cluster'");
  Cluster tasks;
  std::map<std::string, std::string> owners;
  for (const auto& [role, value] : cluster.items()) {
    require_known_role(role, "cluster", false);
    tasks[role] = addresses_of(value, role);
    for (const auto& [index, address] : tasks[role]) {
      const std::string owner = fmt::format("{} {}", role, index);
      require_address(address, owner);
      const auto [first, added] = owners.emplace(address, owner);
      if (!added) {
        fail(fmt::format("{} and {} have the same address '{}'", first->second, owner, address),
             "give every task an address of its own");
      }
    }
  }
  if (owners.empty()) fail("'cluster' names no task");
  return tasks;
}

ClusterPlace find_place(const Cluster& cluster, const std::string& role, int index) {
  ClusterPlace place{0, 0, role, index};
  for (const char* group : roles) {
    const auto tasks = cluster.find(group);
    if (tasks == cluster.end()) continue;
    for (const auto& [task, address] : tasks->second) {
      if (role == group && task == index) place.rank = place.world;
      ++place.world;
    }
  }
  return place;
}

json parse_json(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) fail("it is set but empty");
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    fail(fmt::format("not valid JSON at character {}", error.byte));
  }
}

}  // namespace

ClusterPlace parse_tf_config(const std::string& text) {
  const json document = parse_json(text);
  require_object(document, "it");
  const Cluster cluster = read_cluster(member(document, "cluster", ""));
  const json& task = member(document, "task", "");
  require_object(task, "'task'");

  const json& type = member(task, "type", "task.");
  if (!type.is_string()) fail(fmt::format("task.type is not a string but {}", type.type_name()));
  const std::string role = type.get<std::string>();
  require_known_role(role, "task.type", true);

  const json& index = member(task, "index", "task.");
  if (!index.is_number_integer()) fail(fmt::format("task.index is not a whole number but {}", index.dump()));
  const auto wide = index.get<std::int64_t>();
  const auto tasks = cluster.find(role);
  if (role == evaluator && wide >= 0 && wide <= 65535)
    return {0, find_place(cluster, role, 0).world, role, static_cast<int>(wide)};
  if (tasks == cluster.end()) {
    fail(fmt::format("task.type is '{}', but the cluster has no such role", role),
         "add the role to 'cluster', or name one that is there: " + keys_of(document.at("cluster")));
  }
  if (wide < 0 || wide > 65535 || !tasks->second.contains(static_cast<int>(wide))) {
    std::vector<std::string> known;
    for (const auto& [i, address] : tasks->second) known.push_back(std::to_string(i));
    fail(fmt::format("task.index is {}, but the cluster's {} indices are {}", wide, role, join(known, ", ")),
         "give this process the index of its own address");
  }
  return find_place(cluster, role, static_cast<int>(wide));
}

}  // namespace dtrain::config
