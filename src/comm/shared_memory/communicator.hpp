#pragma once

#include <memory>

#include "comm/communicator.hpp"

namespace dtrain::comm {

// Ranks are threads of this process. Each reduces its own shard of every buffer, straight in the others'
// memory, as soon as all have come; nobody needs a thread besides.
std::unique_ptr<LocalGroup> make_shared_memory_group(const LocalGroupConfig& config);

}  // namespace dtrain::comm
