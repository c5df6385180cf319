#pragma once

#include <gloo/context.h>

#include <memory>
#include <span>
#include <string>

#include "base/registry.hpp"
#include "base/units.hpp"

namespace dtrain::comm {

// An all-reduce in one buffer, made ready once.
class GlooReduction {
 public:
  virtual ~GlooReduction() = default;
  // `number` tells all-reduces of a context apart. Throws what Gloo throws.
  virtual void run(const Deadline& deadline, std::uint32_t number) = 0;
};

using GlooReductionMaker = std::unique_ptr<GlooReduction> (*)(const std::shared_ptr<gloo::Context>&,
                                                              std::span<float>);

// By the names that --allreduce takes, but for auto.
const Registry<GlooReductionMaker>& gloo_algorithms();

// The fastest where it was measured, over loopback: halving_doubling up to 64 KiB between two processes and
// up to 512 KiB between more, else ring_chunked; the other one where messages would have a size that stalls.
std::string choose_gloo_algorithm(std::size_t bytes, int processes);

// Usage error, listing what is known, for what is neither auto nor registered.
void check_gloo_algorithm(const std::string& name);

}  // namespace dtrain::comm
