#pragma once

#include <memory>

#include "comm/exchange.hpp"

namespace dtrain::comm {

// Gloo over TCP, bound to the address by which each process is reached. Processes meet through the job's
// key-value. Environment error where they cannot connect; usage error for an unknown --allreduce.
std::unique_ptr<Exchange> make_gloo_exchange(const ExchangeConfig& config);

}  // namespace dtrain::comm
