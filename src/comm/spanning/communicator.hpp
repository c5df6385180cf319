#pragma once

#include <memory>

#include "comm/spanning/core.hpp"

namespace dtrain::comm {

// The end of one local rank. `neighbour` is its end of a group of the local ranks alone, for their messages;
// null where there is one.
std::unique_ptr<Communicator> make_spanning_communicator(std::shared_ptr<SpanningCore> core, int rank,
                                                         std::unique_ptr<Communicator> neighbour);

}  // namespace dtrain::comm
