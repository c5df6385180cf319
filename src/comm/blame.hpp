#pragma once

#include <string>

#include "comm/exchange.hpp"

namespace dtrain::comm {

// Throws what became of a wait between processes (JobEnded), naming a process as the job knows it: the job's
// loss, if it is known within a moment, because a process that died is noticed by all at about the same time;
// else the member that is behind; else what the library said. `deed` is what was going on, "the all-reduce".
[[noreturn]] void blame(const ExchangeConfig& config, const std::string& deed,
                        const std::string& library_text);

// "worker 1 (10.0.0.2:2222)" for a rank of the exchange.
std::string describe_process(const ExchangeConfig& config, int rank);

}  // namespace dtrain::comm
