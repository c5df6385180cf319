#pragma once

#include <span>
#include <vector>

#include "backend/replica.hpp"

namespace dtrain::backend {

// Which ranges of the flat buffer become final together: layers from the last to the first, gathered until a
// bucket holds `bucket_bytes`.
struct BucketPlan {
  std::vector<Range> buckets;
  std::vector<int> first_layer;  // by bucket: when this layer's gradients are final, the bucket is
};

// Slots lie in model order, one a parameter; `size` is the flat buffer's, in floats.
BucketPlan plan_buckets(const model::Model& model, std::span<const Slot> slots, std::size_t size,
                        std::size_t bucket_bytes);

}  // namespace dtrain::backend
