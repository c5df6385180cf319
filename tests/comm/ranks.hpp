#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace dtrain::comm {

using Body = std::function<void(Communicator&)>;

// Runs `body` as every rank of a new group, each on a thread of its own. Returns what each rank threw, "" for
// nothing.
std::vector<std::string> run_ranks(const LocalGroupConfig& config, const Body& body);

// The same where no rank is expected to throw.
void expect_ranks(const LocalGroupConfig& config, const Body& body);

// Time enough for anything that is not stuck.
inline Deadline ample() { return Deadline::in(Seconds(60)); }

// Values whose sums depend on the order of adding, the same for the same rank and number.
std::vector<float> values_of(int rank, int number, std::size_t size);

// The sum over ranks of values_of, added in rank order.
std::vector<float> sum_of(int ranks, int number, std::size_t size);

bool same_bits(std::span<const float> a, std::span<const float> b);

}  // namespace dtrain::comm
