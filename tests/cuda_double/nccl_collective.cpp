#include <fmt/format.h>

#include "capture.hpp"
#include "entry.hpp"
#include "memory.hpp"
#include "nccl_group.hpp"
#include "stream.hpp"

namespace cuda_double {

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

bool can_be_reduced(ncclDataType_t type) {
  return type == ncclFloat32 || type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat64 ||
         type == ncclInt32;
}

namespace {

ncclResult_t unhandled(cudaError_t status) {
  return refuse(ncclUnhandledCudaError,
                fmt::format("{} ({})", cudaGetErrorName(status), this_thread().refusal));
}

// A thread that calls for several ranks without a group would wait for itself. Kept by thread, without a
// lock.
ncclResult_t check_thread(const ncclComm& communicator) {
  if (in_group()) return ncclSuccess;
  const auto [called, first] = this_group().ungrouped.emplace(communicator.clique, communicator.rank);
  if (first || called->second == communicator.rank) return ncclSuccess;
  return refuse(ncclInvalidUsage, fmt::format("one thread calls for ranks {} and {} without a group",
                                              called->second, communicator.rank));
}

ncclResult_t check_stream(const ncclComm& communicator, cudaStream_t handle, CUstream_st** stream) {
  if (const cudaError_t bad = resolve(handle, stream)) return unhandled(bad);
  if ((*stream)->device == communicator.device) return ncclSuccess;
  return refuse(ncclInvalidUsage, fmt::format("rank {} is on device {}, the stream on device {}",
                                              communicator.rank, communicator.device, (*stream)->device));
}

ncclResult_t check_buffer(const ncclComm& communicator, const void* buffer, std::size_t bytes,
                          const char* what) {
  if (bytes == 0) return ncclSuccess;
  const cudaError_t status = require_device_memory(buffer, bytes, communicator.device, what);
  return status == cudaSuccess ? ncclSuccess : refuse(ncclInvalidArgument, this_thread().refusal);
}

ncclResult_t reduction_of(const ncclComm& communicator, ncclRedOp_t op, ncclDataType_t type,
                          Reduction* reduction) {
  if (!can_be_reduced(type)) {
    return refuse(ncclInvalidArgument,
                  fmt::format("the double does not reduce type {}", static_cast<int>(type)));
  }
  if (op >= ncclNumOps) {
    const auto index = static_cast<std::size_t>(op - ncclNumOps);
    if (index >= communicator.reductions.size()) return refuse(ncclInvalidArgument, "no such reduction");
    *reduction = communicator.reductions[index];
    return ncclSuccess;
  }
  if (op == ncclAvg && type == ncclInt32)
    return refuse(ncclInvalidArgument, "the double averages no integers");
  *reduction = {op, op == ncclAvg ? 1.0 / communicator.clique->size() : 1.0};
  return ncclSuccess;
}

ncclResult_t enqueue(ncclComm& communicator, CUstream_st& stream, const Kind* kind, const Contribution& own) {
  return enqueue_work(communicator, stream,
                      {.kind = kind,
                       .run = [&communicator, own] { take_part(communicator, own); },
                       .target = own.receive,
                       .bytes = own.count * bytes_of(own.type)});
}

// `sends` and `receives` say how many times `count` elements the buffers hold on this rank.
ncclResult_t collective(ncclComm_t handle, cudaStream_t stream_handle, const Kind* kind, Contribution own,
                        std::size_t sends, std::size_t receives) {
  if (const ncclResult_t bad = ready(handle)) return bad;
  ncclComm& communicator = *handle;
  CUstream_st* stream = nullptr;
  if (const ncclResult_t bad = check_thread(communicator)) return bad;
  if (const ncclResult_t bad = check_stream(communicator, stream_handle, &stream)) return bad;
  const std::size_t bytes = own.count * bytes_of(own.type);
  if (bytes_of(own.type) == 0) return refuse(ncclInvalidArgument, "a type that the double does not model");
  if (own.root < 0 || own.root >= communicator.clique->size())
    return refuse(ncclInvalidArgument, "no such root");
  if (const ncclResult_t bad = check_buffer(communicator, own.send, bytes * sends, "the send buffer"))
    return bad;
  if (const ncclResult_t bad =
          check_buffer(communicator, own.receive, bytes * receives, "the receive buffer")) {
    return bad;
  }
  own.name = kind->name;
  if (own.count == 0) return ncclSuccess;
  return issue(
      {.communicator = &communicator,
       .stream = stream,
       .enqueue = [&communicator, stream, kind, own] { return enqueue(communicator, *stream, kind, own); },
       .transfers = {}});
}

ncclResult_t message(ncclComm_t handle, cudaStream_t stream_handle, const Transfer& transfer) {
  if (const ncclResult_t bad = ready(handle)) return bad;
  ncclComm& communicator = *handle;
  CUstream_st* stream = nullptr;
  if (const ncclResult_t bad = check_stream(communicator, stream_handle, &stream)) return bad;
  if (transfer.peer < 0 || transfer.peer >= communicator.clique->size()) {
    return refuse(ncclInvalidArgument, fmt::format("there is no rank {}", transfer.peer));
  }
  const std::size_t bytes = transfer.count * bytes_of(transfer.type);
  if (bytes == 0) return refuse(ncclInvalidArgument, "a message without elements, or of a type not modelled");
  if (const ncclResult_t bad = check_buffer(communicator, transfer.data, bytes, "the message")) return bad;
  return issue(
      {.communicator = &communicator, .stream = stream, .enqueue = nullptr, .transfers = {transfer}});
}

template <Name name>
ncclResult_t checked(const std::function<ncclResult_t()>& body) {
  return library_call<name, ncclResult_t>([&] {
    const ncclResult_t status = body();
    if (status != ncclSuccess && status != ncclInProgress && in_group()) this_group().error = status;
    return status;
  });
}

}  // namespace

// Operations of one communicator run in the order in which they were given, whatever their streams.
ncclResult_t enqueue_work(ncclComm& communicator, CUstream_st& stream, Work work) {
  if (is_capturing(stream)) {
    if (communicator.last_stream != nullptr && is_capturing(*communicator.last_stream) &&
        communicator.last_stream != &stream) {
      return refuse(ncclInvalidUsage,
                    "the double does not model a capture with one communicator on two streams");
    }
    work.recorded = [&communicator](int change) { communicator.recordings.fetch_add(change); };
  } else if (communicator.last_work != nullptr && communicator.last_stream != &stream) {
    wait_for(stream, communicator.last_work);
  }
  if (const cudaError_t bad = submit(stream, std::move(work))) return unhandled(bad);
  communicator.last_stream = &stream;
  if (!is_capturing(stream)) communicator.last_work = mark(stream);
  return ncclSuccess;
}

ncclResult_t enqueue_transfers(ncclComm& communicator, CUstream_st& stream, std::vector<Transfer> together) {
  void* target = nullptr;
  std::size_t bytes = 0;
  for (const Transfer& one : together) {
    if (!one.send) target = one.data;
    bytes += one.count * bytes_of(one.type);
  }
  const Kind* kinds[] = {kind<"ncclSend">(), kind<"ncclRecv">()};
  return enqueue_work(
      communicator, stream,
      {.kind = kinds[target == nullptr ? 0 : 1],
       .run = [&communicator, together = std::move(together)] { transfer(communicator, together); },
       .target = target,
       .bytes = bytes});
}

}  // namespace cuda_double

using namespace cuda_double;

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t communicator, cudaStream_t stream) {
  return checked<"ncclAllReduce">([&] {
    if (const ncclResult_t bad = ready(communicator)) return bad;
    Contribution own{{}, send, receive, count, type, {}, 0};
    if (const ncclResult_t bad = reduction_of(*communicator, op, type, &own.reduction)) return bad;
    return collective(communicator, stream, kind<"ncclAllReduce">(), own, 1, 1);
  });
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t communicator, cudaStream_t stream) {
  return checked<"ncclReduce">([&] {
    if (const ncclResult_t bad = ready(communicator)) return bad;
    Contribution own{{}, send, receive, count, type, {}, root};
    if (const ncclResult_t bad = reduction_of(*communicator, op, type, &own.reduction)) return bad;
    return collective(communicator, stream, kind<"ncclReduce">(), own, 1, communicator->rank == root ? 1 : 0);
  });
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return checked<"ncclReduceScatter">([&] {
    if (const ncclResult_t bad = ready(communicator)) return bad;
    Contribution own{{}, send, receive, count, type, {}, 0};
    if (const ncclResult_t bad = reduction_of(*communicator, op, type, &own.reduction)) return bad;
    return collective(communicator, stream, kind<"ncclReduceScatter">(), own,
                      communicator->clique->ranks.size(), 1);
  });
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return checked<"ncclAllGather">([&] {
    if (const ncclResult_t bad = ready(communicator)) return bad;
    return collective(communicator, stream, kind<"ncclAllGather">(), {{}, send, receive, count, type, {}, 0},
                      1, communicator->clique->ranks.size());
  });
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return checked<"ncclBroadcast">([&] {
    if (const ncclResult_t bad = ready(communicator)) return bad;
    return collective(communicator, stream, kind<"ncclBroadcast">(),
                      {{}, send, receive, count, type, {}, root}, communicator->rank == root ? 1 : 0, 1);
  });
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return checked<"ncclSend">([&] {
    return message(communicator, stream, {true, const_cast<void*>(data), count, type, peer});
  });
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return checked<"ncclRecv">([&] { return message(communicator, stream, {false, data, count, type, peer}); });
}
