#pragma once

#include "nccl_world.hpp"

namespace cuda_double {

// One call within a group.
struct GroupedCall {
  ncclComm* communicator = nullptr;
  CUstream_st* stream = nullptr;
  std::function<ncclResult_t()> enqueue;  // of a collective
  std::vector<Transfer> transfers;        // or one end of a message: those of a communicator go together
};

struct GroupedWait {
  std::function<bool()> done;
  std::function<ncclResult_t()> outcome;
  std::string waiting_for;
};

struct Group {
  std::uint64_t epoch = 0;
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<GroupedCall> calls;
  std::vector<GroupedWait> waits;
  std::map<const Clique*, int> ungrouped;  // the rank that this thread has called for without a group
};
Group& this_group();

// Now, or at the end of the group.
ncclResult_t issue(GroupedCall call);

ncclResult_t enqueue_transfers(ncclComm& communicator, CUstream_st& stream, std::vector<Transfer> together);
ncclResult_t enqueue_work(ncclComm& communicator, CUstream_st& stream, struct Work work);

ncclResult_t require_gpu();  // refused without driver or device, or when the device is spoiled
ncclResult_t join(Clique& clique, ncclComm& communicator, int size);
ncclResult_t blocking_of(const ncclConfig_t* config, bool* blocking);  // left alone where it does not say
bool complete(const std::vector<SplitRequest>& requests);

}  // namespace cuda_double
