#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain {

// A named table, filled in one function. A duplicate name is an error in the program; an unknown one is a
// usage error that lists what is known and the nearest name.
template <class Value>
class Registry {
 public:
  struct Entry {
    std::string name;
    std::string summary;  // one line, for help texts and the README's tables
    Value value;
  };

  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  void add(std::string name, std::string summary, Value value) {
    if (find(name) != nullptr) throw std::logic_error(kind_ + " registered twice: " + name);
    entries_.push_back({std::move(name), std::move(summary), std::move(value)});
  }

  // A second spelling of a registered name, e.g. TensorFlow's class name for a strategy.
  void alias(std::string other, const std::string& name) {
    at(name);
    if (find(other) != nullptr) throw std::logic_error(kind_ + " registered twice: " + other);
    aliases_[std::move(other)] = name;
  }

  const Entry* find(const std::string& name) const {
    const auto alias = aliases_.find(name);
    const std::string& target = alias == aliases_.end() ? name : alias->second;
    for (const auto& entry : entries_) {
      if (entry.name == target) return &entry;
    }
    return nullptr;
  }

  const Entry& at(const std::string& name) const {
    if (const Entry* entry = find(name)) return *entry;
    const auto known = names();
    const auto close = nearest(name, known);
    throw usage_error(
        "unknown " + kind_ + " '" + name + "'",
        (close ? "did you mean '" + *close + "'? " : std::string()) + "known: " + join(known, ", "));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : entries_) out.push_back(entry.name);
    return out;
  }

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::string kind_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> aliases_;
};

}  // namespace dtrain
