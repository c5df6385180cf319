#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dtrain::comm {

enum class Operation : int { all_reduce, reduce_scatter, all_gather, broadcast, barrier, gather_values };

std::string_view name(Operation operation);

// What a rank brings to a collective.
struct Request {
  Operation operation = Operation::barrier;
  int root = 0;
  std::size_t count = 0;           // floats or values
  float* data = nullptr;           // read and written by other ranks
  const double* values = nullptr;  // gather_values: read by other ranks
  double* gathered = nullptr;      // gather_values: this rank's result
};

// The algorithms. All ranks' requests are known, and `buffers` lists their data; a rank's part touches no
// byte that another rank's part writes, so that parts need no order among each other.
void do_part(std::span<const Request> requests, std::span<float* const> buffers, int rank);

// The lowest rank whose request does not fit rank 0's.
std::optional<int> find_disagreement(std::span<const Request> requests);

// "all-reduce of 1000 floats", for messages.
std::string describe(const Request& request);

}  // namespace dtrain::comm
