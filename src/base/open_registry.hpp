#pragma once

#include <atomic>

#include "base/registry.hpp"

namespace dtrain {

// A registry that a program may add to until somebody looks something up in it: whoever has seen it relies on
// what it held.
template <class Value>
class OpenRegistry {
 public:
  explicit OpenRegistry(Registry<Value> filled) : registry_(std::move(filled)) {}

  // std::logic_error for a name that is taken, and after the first look-up. Call it from one thread.
  void add(const std::string& name, const std::string& summary, Value value) {
    if (seen_) throw std::logic_error("added after the first look-up: " + name);
    registry_.add(name, summary, std::move(value));
  }
  const Registry<Value>& get() {
    seen_ = true;
    return registry_;
  }

 private:
  Registry<Value> registry_;
  std::atomic<bool> seen_{false};
};

}  // namespace dtrain
