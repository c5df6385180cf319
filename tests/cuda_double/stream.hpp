#pragma once

#include <functional>

#include "entry.hpp"
#include "machine.hpp"
#include "worker.hpp"

namespace cuda_double {

struct Capture;

// Something for a stream to do. In a graph it is run again with every launch.
struct Work {
  const Kind* kind = nullptr;
  std::function<void()> run{};
  bool always = false;  // also on a spoiled device: others wait for it
  bool logged = true;
  const void* target = nullptr;
  std::size_t bytes = 0;
  // Told of every graph that holds this work (+1), and of its end (-1).
  std::function<void(int)> recorded{};
};

}  // namespace cuda_double

struct CUstream_st : cuda_double::Object {
  CUstream_st(int device, unsigned flags, int priority);

  int device;
  unsigned flags;
  int priority;
  bool legacy = false;
  std::atomic<cuda_double::Capture*> capture{nullptr};
  cuda_double::OperationLog* log;
  cuda_double::Worker worker;
};

namespace cuda_double {

// The stream behind a handle; null is the current device's legacy stream.
cudaError_t resolve(cudaStream_t handle, CUstream_st** stream);

// Enqueues, or records while the stream is captured.
cudaError_t submit(CUstream_st& stream, Work work);

// Runs work on a stream's thread: delays, faults, log; what it throws spoils the device.
void execute(const Work& work, const CUstream_st& stream, OperationLog& log, bool replayed);

bool is_capturing(const CUstream_st& stream);

// A moment that the stream passes after what it was given.
Moment* mark(CUstream_st& stream);
void wait_for(CUstream_st& stream, const Moment* moment);

}  // namespace cuda_double
