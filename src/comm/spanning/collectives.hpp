#pragma once

#include <span>
#include <vector>

#include "comm/exchange.hpp"
#include "comm/shared_memory/collectives.hpp"

namespace dtrain::comm {

// Where the ranks of a group are.
struct Placement {
  explicit Placement(const std::vector<int>& process_of);

  std::vector<int> first;   // rank of each process
  std::vector<int> counts;  // ranks of each process
  bool even = true;         // as many in each
};

// The collectives of ranks that processes host, but for the all-reduce of what is compressed: `requests` are
// those of the ranks of this process, all alike. Sums are taken in rank order here, then over processes.
void sum_local(std::span<const Request> requests);  // into the first rank's buffer
void copy_to_others(std::span<const Request> requests, std::size_t from);
void do_spanning(std::span<const Request> requests, const Placement& placement, Exchange& exchange,
                 const std::vector<int>& process_of, const Deadline& deadline);

}  // namespace dtrain::comm
