#include "comm/spanning/collectives.hpp"

#include <algorithm>

#include "comm/communicator.hpp"
#include "kernels/reduce.hpp"

namespace dtrain::comm {

namespace {

std::span<float> data_of(const Request& request) { return {request.data, request.count}; }

// The part of the data that is the shares of all ranks of a process.
std::span<float> shares(std::span<float> data, const Placement& placement, int process, int ranks) {
  const auto at = static_cast<std::size_t>(process);
  const backend::Range first = shard_of(data.size(), placement.first[at], ranks);
  const backend::Range last = shard_of(data.size(), placement.first[at] + placement.counts[at] - 1, ranks);
  return data.subspan(first.offset, last.offset + last.size - first.offset);
}

// Even processes own, together, just the shares that the exchange gives them.
void reduce_scatter(std::span<const Request> requests, const Placement& placement, Exchange& exchange,
                    int ranks, const Deadline& deadline) {
  const std::span<float> sum = data_of(requests.front());
  sum_local(requests);
  if (placement.even) {
    exchange.reduce_scatter(sum, deadline);
  } else {
    exchange.all_reduce(sum, deadline);
  }
  const int first = placement.first[static_cast<std::size_t>(exchange.rank())];
  for (std::size_t local = 1; local < requests.size(); ++local) {
    const backend::Range mine = shard_of(sum.size(), first + static_cast<int>(local), ranks);
    std::ranges::copy(sum.subspan(mine.offset, mine.size), requests[local].data + mine.offset);
  }
}

void all_gather(std::span<const Request> requests, const Placement& placement, Exchange& exchange, int ranks,
                const Deadline& deadline) {
  const std::span<float> whole = data_of(requests.front());
  const int first = placement.first[static_cast<std::size_t>(exchange.rank())];
  for (std::size_t local = 1; local < requests.size(); ++local) {
    const backend::Range theirs = shard_of(whole.size(), first + static_cast<int>(local), ranks);
    std::copy_n(requests[local].data + theirs.offset, theirs.size, whole.data() + theirs.offset);
  }
  if (placement.even) {
    exchange.all_gather(whole, deadline);
  } else {
    for (int process = 0; process < exchange.size(); ++process) {
      exchange.broadcast(shares(whole, placement, process, ranks), process, deadline);
    }
  }
  copy_to_others(requests, 0);
}

void broadcast(std::span<const Request> requests, const Placement& placement, Exchange& exchange,
               const std::vector<int>& process_of, const Deadline& deadline) {
  const int root = requests.front().root;
  const int process = process_of[static_cast<std::size_t>(root)];
  const auto local = process == exchange.rank()
                         ? static_cast<std::size_t>(root - placement.first[static_cast<std::size_t>(process)])
                         : 0;
  exchange.broadcast(data_of(requests[local]), process, deadline);
  copy_to_others(requests, local);
}

// Every process sends as much as the one with the most ranks has.
void gather_values(std::span<const Request> requests, const Placement& placement, Exchange& exchange,
                   const Deadline& deadline) {
  const std::size_t count = requests.front().count;
  const auto most = static_cast<std::size_t>(*std::ranges::max_element(placement.counts));
  std::vector<double> mine(most * count);
  for (std::size_t local = 0; local < requests.size(); ++local) {
    std::copy_n(requests[local].values, count, mine.data() + local * count);
  }
  std::vector<double> all(mine.size() * static_cast<std::size_t>(exchange.size()));
  exchange.all_gather_bytes(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), deadline);
  std::vector<double> gathered;
  for (std::size_t process = 0; process < placement.counts.size(); ++process) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(process * mine.size());
    gathered.insert(
        gathered.end(), begin,
        begin + static_cast<std::ptrdiff_t>(placement.counts[process]) * static_cast<std::ptrdiff_t>(count));
  }
  for (const Request& request : requests) std::ranges::copy(gathered, request.gathered);
}

}  // namespace

Placement::Placement(const std::vector<int>& process_of) {
  for (std::size_t rank = 0; rank < process_of.size(); ++rank) {
    if (rank == 0 || process_of[rank] != process_of[rank - 1]) {
      first.push_back(static_cast<int>(rank));
      counts.push_back(0);
    }
    if (process_of[rank] != static_cast<int>(counts.size()) - 1) {
      throw std::logic_error("the ranks of a group are not dealt to its processes in ascending order");
    }
    ++counts.back();
  }
  even = std::ranges::count(counts, counts.front()) == static_cast<std::ptrdiff_t>(counts.size());
}

void sum_local(std::span<const Request> requests) {
  std::vector<float*> buffers;
  buffers.reserve(requests.size());
  for (const Request& request : requests) buffers.push_back(request.data);
  if (buffers.size() > 1) kernels::sum_into_one(buffers, 0, 0, requests.front().count);
}

void copy_to_others(std::span<const Request> requests, std::size_t from) {
  for (std::size_t local = 0; local < requests.size(); ++local) {
    if (local != from) std::ranges::copy(data_of(requests[from]), requests[local].data);
  }
}

void do_spanning(std::span<const Request> requests, const Placement& placement, Exchange& exchange,
                 const std::vector<int>& process_of, const Deadline& deadline) {
  const int ranks = static_cast<int>(process_of.size());
  switch (requests.front().operation) {
    case Operation::all_reduce:
      sum_local(requests);
      exchange.all_reduce(data_of(requests.front()), deadline);
      return copy_to_others(requests, 0);
    case Operation::reduce_scatter:
      return reduce_scatter(requests, placement, exchange, ranks, deadline);
    case Operation::all_gather:
      return all_gather(requests, placement, exchange, ranks, deadline);
    case Operation::broadcast:
      return broadcast(requests, placement, exchange, process_of, deadline);
    case Operation::gather_values:
      return gather_values(requests, placement, exchange, deadline);
    case Operation::barrier:
      return exchange.barrier(deadline);
  }
}

}  // namespace dtrain::comm
