#include "comm/direct_exchange.hpp"

#include <algorithm>

#include "comm/communicator.hpp"
#include "kernels/reduce.hpp"

namespace dtrain::comm {

namespace {

std::span<float> shard(std::span<float> data, int rank, int ranks) {
  const backend::Range range = shard_of(data.size(), rank, ranks);
  return data.subspan(range.offset, range.size);
}

}  // namespace

void DirectExchange::begin(const char* deed, std::uint64_t bytes) {
  deed_ = deed;
  count(bytes);
}

void DirectExchange::reduce_scatter(std::span<float> data, const Deadline& deadline) {
  begin("the reduce-scatter", others() * data.size_bytes() / processes());
  sum_own_shard(data, deadline);
}

void DirectExchange::sum_directly(std::span<float> data, const Deadline& deadline) {
  begin("the all-reduce", 2 * others() * data.size_bytes() / processes());
  sum_own_shard(data, deadline);
  gather_shards(data, deadline);
}

void DirectExchange::sum_own_shard(std::span<float> data, const Deadline& deadline) {
  if (size_ == 1) return;
  const std::span<float> mine = shard(data, rank_, size_);
  pieces_.resize(others() * mine.size());
  std::vector<float*> buffers(processes());
  buffers[static_cast<std::size_t>(rank_)] = mine.data();
  for (int distance = 1; distance < size_; ++distance) {
    const std::span<float> piece =
        std::span(pieces_).subspan(static_cast<std::size_t>(distance - 1) * mine.size(), mine.size());
    buffers[static_cast<std::size_t>(before(distance))] = piece.data();
    swap(std::as_bytes(shard(data, after(distance), size_)), after(distance), std::as_writable_bytes(piece),
         before(distance), deadline);
  }
  kernels::sum_into_one(buffers, static_cast<std::size_t>(rank_), 0, mine.size());
}

void DirectExchange::gather_shards(std::span<float> data, const Deadline& deadline) {
  for (int distance = 1; distance < size_; ++distance) {
    swap(std::as_bytes(shard(data, rank_, size_)), after(distance),
         std::as_writable_bytes(shard(data, before(distance), size_)), before(distance), deadline);
  }
}

void DirectExchange::all_gather(std::span<float> data, const Deadline& deadline) {
  begin("the all-gather", others() * data.size_bytes() / processes());
  gather_shards(data, deadline);
}

void DirectExchange::broadcast(std::span<float> data, int root, const Deadline& deadline) {
  begin("the broadcast", rank_ == root ? others() * data.size_bytes() : 0);
  if (rank_ != root) {
    swap({}, root, std::as_writable_bytes(data), root, deadline);
    return;
  }
  for (int distance = 1; distance < size_; ++distance) {
    swap(std::as_bytes(data), after(distance), {}, after(distance), deadline);
  }
}

// After the last round, everyone has heard, directly or not, of everyone.
void DirectExchange::barrier(const Deadline& deadline) {
  begin("the barrier", 0);
  const std::byte mine{};
  std::byte theirs{};
  for (int distance = 1; distance < size_; distance *= 2) {
    swap({&mine, 1}, after(distance), {&theirs, 1}, before(distance), deadline);
  }
}

void DirectExchange::all_gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all,
                                      const Deadline& deadline) {
  begin("the all-gather", others() * mine.size());
  const auto place = [&](int rank) {
    return all.subspan(static_cast<std::size_t>(rank) * mine.size(), mine.size());
  };
  std::ranges::copy(mine, place(rank_).begin());
  for (int distance = 1; distance < size_; ++distance) {
    swap(mine, after(distance), place(before(distance)), before(distance), deadline);
  }
}

void DirectExchange::all_to_all_bytes(std::span<const std::byte> to, std::span<std::byte> from,
                                      const Deadline& deadline) {
  const std::size_t piece = to.size() / processes();
  begin("the all-to-all", others() * piece);
  const auto at = [&](auto whole, int rank) {
    return whole.subspan(static_cast<std::size_t>(rank) * piece, piece);
  };
  std::ranges::copy(at(to, rank_), at(from, rank_).begin());
  for (int distance = 1; distance < size_; ++distance) {
    swap(at(to, after(distance)), after(distance), at(from, before(distance)), before(distance), deadline);
  }
}

}  // namespace dtrain::comm
