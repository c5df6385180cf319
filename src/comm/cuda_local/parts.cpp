#include "comm/cuda_local/parts.hpp"

#include "comm/communicator.hpp"
#include "kernels/cuda/sum_into_all.hpp"

namespace dtrain::comm {

namespace {

void copy(float* to, const float* from, std::size_t count, cudaStream_t stream) {
  if (count == 0) return;
  DTRAIN_CUDA(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDefault, stream));
}

void gather(const Request& mine, std::span<float* const> buffers, int rank, cudaStream_t stream) {
  const int ranks = static_cast<int>(buffers.size());
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    const backend::Range theirs = shard_of(mine.count, other, ranks);
    copy(mine.data + theirs.offset, buffers[static_cast<std::size_t>(other)] + theirs.offset, theirs.size,
         stream);
  }
}

void move_data(const Request& mine, std::span<float* const> buffers, int rank, cudaStream_t stream) {
  const backend::Range shard = shard_of(mine.count, rank, static_cast<int>(buffers.size()));
  switch (mine.operation) {
    case Operation::all_reduce:
    case Operation::reduce_scatter:  // what it leaves outside a rank's own shard is nobody's business
      DTRAIN_CUDA(kernels::cuda::sum_into_all(buffers, shard.offset, shard.size, stream));
      break;
    case Operation::all_gather:
      gather(mine, buffers, rank, stream);
      break;
    case Operation::broadcast:
      if (mine.root != rank) {
        copy(mine.data, buffers[static_cast<std::size_t>(mine.root)], mine.count, stream);
      }
      break;
    case Operation::barrier:
    case Operation::gather_values:
      break;
  }
}

}  // namespace

bool on_device(Operation operation) {
  return operation != Operation::barrier && operation != Operation::gather_values;
}

void enqueue_part(const DeviceGroup& group, std::uint64_t number, std::span<const Request> requests,
                  std::span<float* const> buffers, int rank) {
  const Lane& lane = group.lane(rank);
  const std::size_t place = number % place_count;
  if (on_device(requests[static_cast<std::size_t>(rank)].operation)) {
    for (int other = 0; other < static_cast<int>(requests.size()); ++other) {
      DTRAIN_CUDA(
          cudaStreamWaitEvent(lane.stream.get(), group.lane(other).ready[place].get(), cudaEventWaitDefault));
    }
    move_data(requests[static_cast<std::size_t>(rank)], buffers, rank, lane.stream.get());
  } else {
    do_part(requests, buffers, rank);
  }
  DTRAIN_CUDA(cudaEventRecord(lane.done[place].get(), lane.stream.get()));
}

}  // namespace dtrain::comm
