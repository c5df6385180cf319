#pragma once

#include <atomic>
#include <memory>

#include "cluster/member.hpp"
#include "comm/communicator.hpp"
#include "train/world.hpp"

namespace dtrain {

// How far this process has come: its calls of all replicas in the upper half, the collectives since in the
// lower. A wait that fails tells by it who is behind.
using SharedProgress = std::shared_ptr<std::atomic<cluster::Progress>>;

// The communicator's group of this run; null where the strategy needs none.
std::unique_ptr<comm::LocalGroup> make_group(const train::WorldConfig& config,
                                             const SharedProgress& progress);

}  // namespace dtrain
