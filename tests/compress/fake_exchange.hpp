#pragma once

#include <functional>
#include <memory>

#include "comm/exchange.hpp"

namespace dtrain::testing {

// Runs `body` as every process of an exchange, each a thread that reads in the others' memory. What one
// throws fails the test.
void run_processes(int size, const std::function<void(comm::Exchange&)>& body);

// Time enough for anything that is not stuck.
inline Deadline ample() { return Deadline::in(Seconds(60)); }

}  // namespace dtrain::testing
