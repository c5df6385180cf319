#pragma once

#include <limits>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// What strategies have in common that spread one model over CPU replicas, which take every step together.
class Synchronous : public Strategy {
 public:
  int replicas_in_sync(const config::Options&, int replicas) const override { return replicas; }
  bool uses_collective() const override { return true; }
  bool spans_workers() const override { return true; }
  bool runs_on(const std::string& device) const override { return device == "cpu"; }
  int max_replicas() const override { return std::numeric_limits<int>::max(); }
};

}  // namespace dtrain::strategy
