#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// The tests' side of the double of CUDA's runtime, cuDNN and NCCL: what the machine is, what is to go wrong,
// and what was done.
namespace cuda_double {

struct Setup {
  int devices = 2;
  std::size_t memory_bytes = std::size_t{139} << 30;  // of each device
  bool driver = true;  // without one, every call is cudaErrorInsufficientDriver
  int compute_major = 9;
  int compute_minor = 0;
};

// Starts afresh: aborts what hangs, waits for the streams, forgets objects, faults, counts and logs. Handles
// from before are void.
void reset(const Setup& setup = {});

// The nth call (from 1, since reset) of an entry point returns this status and does nothing; but what
// releases something releases it all the same, and what waits for a stream waits. "kernelLaunch" is the
// host's side of a launch. What runs on a stream can fail as well, which spoils the device as on a GPU:
// "kernel execution", "memcpy execution", ...
void fail(std::string_view call, int nth, cudaError_t status);
void fail(std::string_view call, int nth, cudnnStatus_t status);
void fail(std::string_view call, int nth, ncclResult_t status);
void fail(std::string_view call, int nth);  // with a status that is usual for the call
std::vector<std::string> faults_left();     // what did not come to pass, "cudaMalloc #3"

// Every call of this entry point (or execution on a stream) takes that much longer.
void slow(std::string_view call, std::chrono::milliseconds delay);

// How often each entry point was called since reset.
std::map<std::string, int> calls();

// A rank that does not arrive at collectives any more, in any communicator, until released or aborted.
void hang_nccl_rank(int rank);
void release_nccl_ranks();

struct Leak {
  std::string kind;  // "device memory", "pinned memory", "stream", "event", "graph", "cudnn handle", ...
  std::string site;  // the call that made it, "cudaMalloc #3", and what is known of it
};
std::vector<Leak> leaks();  // what lives, oldest first
std::string describe(const std::vector<Leak>& leaks);

struct Operation {
  std::string kind;  // "kernel", "memcpy", "memset", "event record", "cudnn", "ncclAllReduce", ...
  int device = 0;
  cudaStream_t stream = nullptr;  // in a replayed graph: the stream it was captured on
  bool replayed = false;
  const void* target = nullptr;  // what it writes, where that is known
  std::size_t bytes = 0;
  std::uint64_t order = 0;  // of its start, among all operations
};
std::vector<Operation> operations();  // what has run, in order
std::vector<Operation> operations(cudaStream_t stream);

// Why a call on this thread was refused, the latest time that one was; "" where none was.
std::string last_refusal();

}  // namespace cuda_double
