#pragma once

#include <vector>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Bytes of a rank's flat buffers while it takes steps, where they are most.
struct FlatBytes {
  double weights = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;
};

// Gradients reach the other ranks before backward is over, and may go then.
bool gradients_go_early(const config::Options& options);

// Of a bucket, so that the largest one adds little to a rank's part of the whole.
std::size_t bucket_bytes(const AssignmentContext& context);

// What the stage makes of 4 bytes a parameter and buffer, without the backend's padding and without pages
// that are kept for a part of what is in them.
FlatBytes bytes_by_theory(const AssignmentContext& context);

// Both, beside each other.
std::vector<measure::Fact> memory_facts(const AssignmentContext& context, const measure::RunSamples& samples);

}  // namespace dtrain::strategy
