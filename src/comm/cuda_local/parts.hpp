#pragma once

#include <span>

#include "comm/cuda_local/device_group.hpp"

namespace dtrain::comm {

// Whether a collective moves data on devices; values and barriers are the hosts' alone.
bool on_device(Operation operation);

// Enqueues a rank's part of collective `number` on its lane: after all ranks' data is there, and marked as
// done. All ranks' requests are known, and `buffers` lists their data; a rank's part touches no byte that
// another rank's part writes.
void enqueue_part(const DeviceGroup& group, std::uint64_t number, std::span<const Request> requests,
                  std::span<float* const> buffers, int rank);

}  // namespace dtrain::comm
