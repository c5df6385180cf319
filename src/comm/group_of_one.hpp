#pragma once

#include <memory>

#include "comm/communicator.hpp"

namespace dtrain::comm {

// A group of one rank: every sum is what it was. `name` is what messages call the rank.
std::unique_ptr<Communicator> make_group_of_one(int name);

}  // namespace dtrain::comm
