#include "backend/buckets.hpp"

namespace dtrain::backend {

BucketPlan plan_buckets(const model::Model& model, std::span<const Slot> slots, std::size_t size,
                        std::size_t bucket_bytes) {
  // Walking parameters in model order backwards gives contiguous ranges.
  BucketPlan plan;
  std::size_t end = size;
  for (std::size_t p = model.parameters.size(); p-- > 0;) {
    const bool layer_begins = p == 0 || model.parameters[p - 1].layer != model.parameters[p].layer;
    const std::size_t begin = slots[p].range.offset;
    const bool full = (end - begin) * sizeof(float) >= bucket_bytes;
    if (layer_begins && (full || p == 0)) {
      plan.buckets.push_back({begin, end - begin});
      plan.first_layer.push_back(model.parameters[p].layer);
      end = begin;
    }
  }
  return plan;
}

}  // namespace dtrain::backend
