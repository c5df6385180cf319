#pragma once

#include <map>
#include <string>

#include "config/launch_environment.hpp"

namespace dtrain::config {

// A task's place in a cluster that lists all of them.
struct ClusterPlace : LaunchEnvironment {
  std::string role;
  int index = 0;
};

// The addresses of a job, by role and index, as TF_CONFIG or flags list them. Usage errors start with
// `source`.
class ClusterSpec {
 public:
  explicit ClusterSpec(std::string source) : source_(std::move(source)) {}

  // Refuses a role that is not known, an address that cannot be, and one that another task has.
  void add(const std::string& role, int index, const std::string& address);
  // Refuses a cluster that nobody can train in.
  void require_whole() const;

  // Of this task: ranks count chief, workers, then parameter servers. An evaluator has none: rank 0. Refuses
  // a task that is not there.
  ClusterPlace place(const std::string& role, std::int64_t index) const;

  // Also of roles without addresses.
  void require_role(const std::string& role, const std::string& where) const;

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& advice) const;

  std::string source_;
  std::map<std::string, std::map<int, std::string>> tasks_;
  std::map<std::string, std::string> owners_;
};

inline constexpr const char* evaluator = "evaluator";  // watches a cluster without being in it

}  // namespace dtrain::config
