#pragma once

#include <memory>

#include "comm/communicator.hpp"
#include "comm/cuda_local/device_group.hpp"

namespace dtrain::comm {

// A rank that has not joined the group yet. The current device is the replica's.
std::unique_ptr<Communicator> make_cuda_local_communicator(std::shared_ptr<DeviceGroup> group, int rank,
                                                           backend::DeviceStream replica);

}  // namespace dtrain::comm
