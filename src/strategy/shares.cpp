#include "strategy/shares.hpp"

#include <algorithm>
#include <stdexcept>

#include "comm/communicator.hpp"

namespace dtrain::strategy {

using backend::Range;

Shares::Shares(std::span<const Range> buckets, int rank, int ranks) {
  buckets_.reserve(buckets.size());
  for (const Range& bucket : buckets) {
    const Range part = comm::shard_of(bucket.size, rank, ranks);
    buckets_.push_back({bucket, {bucket.offset + part.offset, part.size}});
    largest_others_ = std::max(largest_others_, bucket.size - part.size);
  }
}

std::array<Range, 2> Shares::others(int bucket) const {
  const auto& [whole, own] = at(bucket);
  const std::size_t behind = own.offset + own.size;
  return {Range{whole.offset, own.offset - whole.offset}, Range{behind, whole.offset + whole.size - behind}};
}

int Shares::bucket_of(Range parameters) const {
  const auto found = std::ranges::find_if(
      buckets_, [&](const Bucket& bucket) { return bucket.whole.offset <= parameters.offset; });
  if (found == buckets_.end()) throw std::logic_error("parameters outside of all buckets");
  return static_cast<int>(found - buckets_.begin());
}

}  // namespace dtrain::strategy
