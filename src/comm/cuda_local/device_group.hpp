#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "backend/replica.hpp"
#include "comm/shared_memory/group.hpp"

namespace dtrain::comm {

// Collectives that a rank may have published before the first of them is finished: fewer than the host has
// room for, as each takes events. Collective n takes place n modulo place_count.
inline constexpr std::uint64_t place_count = 8;
static_assert(place_count <= ring_size);

// A rank's time lines, and the points on them that other ranks' devices wait for.
struct Lane {
  explicit Lane(backend::DeviceStream replica);

  int device;
  cudaStream_t compute;                                 // the replica's
  backend::cuda::Stream stream;                         // of this rank's parts of collectives
  std::array<backend::cuda::Event, place_count> ready;  // its data is there
  std::array<backend::cuda::Event, place_count> done;   // its part is done
};

// What the ranks of a group share: where they meet on the host, and their lanes.
class DeviceGroup {
 public:
  explicit DeviceGroup(std::shared_ptr<Group> host);

  Group& host() { return *host_; }

  // Makes a rank's lane, and lets its device and the others' use each other's memory.
  void join(int rank, backend::DeviceStream replica);
  // Of a rank that has posted something.
  const Lane& lane(int rank) const { return *lanes_[static_cast<std::size_t>(rank)]; }

  // Waits until no device is at any rank's buffers, once nobody enqueues any more.
  void drain() noexcept;

  // As Group::subgroup.
  std::shared_ptr<DeviceGroup> subgroup(std::uint64_t split, int colour, const std::vector<int>& members);

 private:
  std::shared_ptr<Group> host_;
  std::mutex mutex_;  // of joining and splitting
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::map<const Group*, std::weak_ptr<DeviceGroup>> children_;
};

}  // namespace dtrain::comm
