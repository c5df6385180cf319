#pragma once

#include <memory>

#include "comm/communicator.hpp"

namespace dtrain::comm {

// Ranks are threads of this process whose replicas share a GPU, or GPUs that can use each other's memory
// (environment error where they cannot). Each rank reduces its own shard of every buffer with a kernel on a
// stream of its own; ranks meet on the host to hand the order of that to their devices. At most 16 ranks.
std::unique_ptr<LocalGroup> make_cuda_local_group(const LocalGroupConfig& config);

}  // namespace dtrain::comm
