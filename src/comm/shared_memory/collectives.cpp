#include "comm/shared_memory/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/communicator.hpp"
#include "kernels/reduce.hpp"

namespace dtrain::comm {

std::string_view name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all-reduce";
    case Operation::reduce_scatter:
      return "reduce-scatter";
    case Operation::all_gather:
      return "all-gather";
    case Operation::broadcast:
      return "broadcast";
    case Operation::barrier:
      return "barrier";
    case Operation::gather_values:
      return "exchange of values";
  }
  return "collective";
}

void do_part(std::span<const Request> requests, std::span<float* const> buffers, int rank) {
  const auto self = static_cast<std::size_t>(rank);
  const int ranks = static_cast<int>(requests.size());
  const Request& mine = requests[self];
  const backend::Range shard = shard_of(mine.count, rank, ranks);
  switch (mine.operation) {
    case Operation::all_reduce:
      kernels::sum_into_all(buffers, shard.offset, shard.size);
      break;
    case Operation::reduce_scatter:
      kernels::sum_into_one(buffers, self, shard.offset, shard.size);
      break;
    case Operation::all_gather:
      for (int other = 0; other < ranks; ++other) {
        if (other == rank) continue;
        const backend::Range theirs = shard_of(mine.count, other, ranks);
        std::copy_n(buffers[static_cast<std::size_t>(other)] + theirs.offset, theirs.size,
                    mine.data + theirs.offset);
      }
      break;
    case Operation::broadcast:
      if (mine.root != rank) {
        std::copy_n(buffers[static_cast<std::size_t>(mine.root)], mine.count, mine.data);
      }
      break;
    case Operation::gather_values:
      for (std::size_t other = 0; other < requests.size(); ++other) {
        std::copy_n(requests[other].values, mine.count, mine.gathered + other * mine.count);
      }
      break;
    case Operation::barrier:
      break;
  }
}

std::optional<int> find_disagreement(std::span<const Request> requests) {
  const Request& first = requests.front();
  for (std::size_t rank = 1; rank < requests.size(); ++rank) {
    const Request& other = requests[rank];
    if (other.operation != first.operation || other.count != first.count || other.root != first.root) {
      return static_cast<int>(rank);
    }
  }
  return std::nullopt;
}

std::string describe(const Request& request) {
  std::string text(name(request.operation));
  if (request.operation == Operation::broadcast) text += fmt::format(" from rank {}", request.root);
  if (request.operation == Operation::gather_values) return text + fmt::format(" ({} each)", request.count);
  if (request.operation != Operation::barrier) text += fmt::format(" of {} floats", request.count);
  return text;
}

}  // namespace dtrain::comm
