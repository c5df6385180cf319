#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "comm/communicator.hpp"
#include "comm/nccl/retirement.hpp"
#include "comm/nccl/roster.hpp"

namespace dtrain::comm {

// What all ranks of a group must be given to find each other: made by one of them.
using NcclId = std::array<std::byte, NCCL_UNIQUE_ID_BYTES>;
NcclId make_nccl_id();

struct NcclOptions {
  Seconds timeout{60.0};           // of waits without a deadline: to connect, and to end in order
  std::shared_ptr<Roster> roster;  // who tells this rank of the others; null = nobody
  // Keeps communicators that cannot end yet. Should live longer than the replicas; null = one of its own.
  std::shared_ptr<Retirement> retirement;
};

// One rank, on the stream's device, of a group whose ranks are threads, processes or both. Returns at once;
// the ranks are connected by the first call that needs it (register_buffer, a collective, synchronize), which
// therefore waits for all ranks to join, as a rule before the first step is recorded.
//
// All ranks must record a collective, or none; a recording should be destroyed before this is. Unlike
// ranks that share memory, NCCL does not notice when ranks disagree about a collective or the length of a
// message. A message leaves with the sender's next call, and takes its place in the order of collectives: the
// receiver must ask for it before it starts those that the sender starts after it.
std::unique_ptr<Communicator> make_nccl_communicator(const NcclId& id, int rank, int size,
                                                     backend::DeviceStream stream,
                                                     const NcclOptions& options);

}  // namespace dtrain::comm
