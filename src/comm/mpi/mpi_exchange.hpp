#pragma once

#include <memory>

#include "comm/exchange.hpp"

namespace dtrain::comm::mpi {

std::unique_ptr<Exchange> make_exchange(const ExchangeConfig& config);

}  // namespace dtrain::comm::mpi
