#include "datasets/shard.hpp"

#include <algorithm>

#include "config/plan.hpp"

namespace dtrain::datasets {

namespace {

OrderRange share(OrderRange whole, int part, int parts) {
  OrderRange out{whole.first, config::share_of(whole.count, part, parts)};
  for (int before = 0; before < part; ++before) out.first += config::share_of(whole.count, before, parts);
  return out;
}

}  // namespace

int Sharding::steps_per_epoch() const {
  const std::size_t kept = keep_last ? size + global_batch - 1 : size;
  return static_cast<int>(kept / global_batch);
}

int Sharding::step_images(int step) const {
  const std::size_t first = static_cast<std::size_t>(step) * global_batch;
  return static_cast<int>(std::min<std::size_t>(global_batch, size - first));
}

OrderRange Sharding::micro_batch(int step, int rank, int micro_step) const {
  const OrderRange all{static_cast<std::size_t>(step) * global_batch, step_images(step)};
  return share(share(all, rank, replicas), micro_step, accumulate);
}

int Sharding::largest_micro_batch(int rank) const {
  return config::share_of(config::share_of(global_batch, rank, replicas), 0, accumulate);
}

}  // namespace dtrain::datasets
