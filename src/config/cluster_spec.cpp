#include "config/cluster_spec.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/address.hpp"

namespace dtrain::config {

namespace {

constexpr std::array roles{"chief", "worker", "ps"};  // in the order of ranks
constexpr int most_indices = 65536;

// Also where more was written than the role: worker_hosts, workers.
std::optional<std::string> nearest_role(const std::string& role, const std::vector<std::string>& known) {
  for (const auto& one : known) {
    if (role.starts_with(one)) return one;
  }
  return nearest(role, known);
}

}  // namespace

void ClusterSpec::fail(const std::string& what, const std::string& advice) const {
  throw usage_error(source_ + ": " + what, advice);
}

void ClusterSpec::require_role(const std::string& role, const std::string& where) const {
  std::vector<std::string> known(roles.begin(), roles.end());
  if (where != "cluster") known.emplace_back(evaluator);
  if (std::ranges::find(known, role) != known.end()) return;
  const auto close = nearest_role(role, known);
  fail(fmt::format("unknown role '{}' in {}", role, where),
       (close ? fmt::format("did you mean '{}'? ", *close) : std::string()) + "known: " + join(known, ", "));
}

void ClusterSpec::add(const std::string& role, int index, const std::string& address) {
  require_role(role, "cluster");
  const std::string owner = fmt::format("{} {}", role, index);
  if (index < 0 || index >= most_indices) {
    fail(fmt::format("{} has an index that is not from 0 to {}", owner, most_indices - 1),
         "count tasks from 0");
  }
  if (const auto problem = why_no_address(address)) {
    fail(fmt::format("{} has the address '{}': {}", owner, address, *problem),
         "give host:port with a port from 1 to 65535, such as 10.0.0.1:2222");
  }
  const auto [first, added] = owners_.emplace(address, owner);
  if (!added) {
    fail(fmt::format("{} and {} have the same address '{}'", first->second, owner, address),
         "give every task an address of its own");
  }
  if (!tasks_[role].emplace(index, address).second) {
    fail(fmt::format("{} is listed twice", owner), "give every task one address");
  }
}

void ClusterSpec::require_whole() const {
  if (owners_.empty()) fail("'cluster' names no task", "list the addresses of its workers");
  if (const auto chief = tasks_.find("chief"); chief != tasks_.end()) {
    if (chief->second.size() > 1) {
      fail(fmt::format("{} chiefs are listed, where there is one at most", chief->second.size()),
           "list the others as workers");
    }
    if (!chief->second.contains(0)) fail("the chief's index is not 0", "list it as chief 0");
  }
  if (!tasks_.contains("worker") && !tasks_.contains("chief")) {
    fail("the cluster has parameter servers, but no worker to train", "list workers too");
  }
}

ClusterPlace ClusterSpec::place(const std::string& role, std::int64_t index) const {
  ClusterPlace found;
  found.role = role;
  found.index = static_cast<int>(index);
  bool listed = false;
  for (const char* group : roles) {
    const auto tasks = tasks_.find(group);
    if (tasks == tasks_.end()) continue;
    for (const auto& [task, address] : tasks->second) {
      if (role == group && task == index) {
        found.rank = static_cast<int>(found.tasks.size());
        listed = true;
      }
      found.tasks.push_back({group, task, address});
    }
  }
  found.world = static_cast<int>(found.tasks.size());
  found.rendezvous = found.tasks.front().address;
  found.evaluator = role == evaluator;
  if (found.evaluator && index >= 0 && index < most_indices) return found;

  const auto tasks = tasks_.find(role);
  if (tasks == tasks_.end()) {
    std::vector<std::string> known;
    for (const auto& [one, addresses] : tasks_) known.push_back("'" + one + "'");
    fail(fmt::format("task.type is '{}', but the cluster has no such role", role),
         "add the role to 'cluster', or name one that is there: " + join(known, ", "));
  }
  if (!listed) {
    std::vector<std::string> known;
    for (const auto& [one, address] : tasks->second) known.push_back(std::to_string(one));
    fail(fmt::format("task.index is {}, but the cluster's {} indices are {}", index, role, join(known, ", ")),
         "give this process the index of its own address");
  }
  return found;
}

}  // namespace dtrain::config
