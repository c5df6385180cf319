#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/member.hpp"
#include "comm/exchange.hpp"
#include "comm/spanning_group.hpp"
#include "ranks.hpp"

namespace dtrain::comm {

using ExchangeBody = std::function<void(Exchange&, cluster::Member&)>;

// Runs `body` as every process of a job, each on a thread of its own, with Gloo between them over loopback.
// Returns what each threw.
std::vector<std::string> run_exchanges(int processes, const ExchangeBody& body,
                                       const std::string& algorithm = "auto", Seconds timeout = Seconds(30));

// The same where none is expected to throw.
void expect_exchanges(int processes, const ExchangeBody& body, const std::string& algorithm = "auto");

// Runs `body` as every rank of a group that spans processes: counts[p] ranks in process p.
std::vector<std::string> run_spanning(const std::vector<int>& counts, const Body& body,
                                      SpanningConfig config = {}, bool gloo = true);
void expect_spanning(const std::vector<int>& counts, const Body& body, const SpanningConfig& config = {},
                     bool gloo = true);

}  // namespace dtrain::comm
