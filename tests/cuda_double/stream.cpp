#include "stream.hpp"

#include <fmt/format.h>

#include "capture.hpp"
#include "entry.hpp"
#include "memory.hpp"

CUstream_st::CUstream_st(int on, unsigned how, int level)
    : Object("stream", fmt::format("on device {}", on)),
      device(on),
      flags(how),
      priority(level),
      log(cuda_double::machine().log()) {}

namespace simt {

// A kernel launch, as the kernels' shim hands it over.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> kernel);

}  // namespace simt

namespace cuda_double {
namespace {

constexpr int lowest_priority = 0;
constexpr int highest_priority = -5;

CUstream_st* legacy_stream(int device) {
  static std::mutex making;
  const std::lock_guard lock(making);
  Device& owner = *machine().devices[static_cast<std::size_t>(device)];
  if (owner.legacy_stream == nullptr) {
    owner.legacy_stream = machine().make<CUstream_st>(device, cudaStreamDefault, 0);
    owner.legacy_stream->legacy = true;
    owner.legacy_stream->owned_by_program = false;
  }
  return owner.legacy_stream;
}

std::vector<CUstream_st*> blocking_streams(int device) {
  std::vector<CUstream_st*> found;
  for (auto* stream : machine().streams()) {
    if (live(stream) && stream->device == device && !stream->legacy && stream->flags == cudaStreamDefault) {
      found.push_back(stream);
    }
  }
  return found;
}

void push(CUstream_st& stream, Work work) {
  stream.worker.push([work = std::move(work), &stream] { execute(work, stream, *stream.log, false); });
}

// The legacy stream and the blocking streams of its device wait for each other.
cudaError_t submit_to_legacy(CUstream_st& legacy, Work work) {
  const auto others = blocking_streams(legacy.device);
  for (auto* other : others) {
    if (is_capturing(*other)) {
      return refuse_and_invalidate(*other, cudaErrorStreamCaptureImplicit,
                                   "the legacy stream would wait for a stream that is captured");
    }
  }
  for (auto* other : others) wait_for(legacy, mark(*other));
  push(legacy, std::move(work));
  if (others.empty()) return cudaSuccess;
  const Moment* done = mark(legacy);
  for (auto* other : others) wait_for(*other, done);
  return cudaSuccess;
}

cudaError_t create(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return refuse(cudaErrorInvalidValue, "no place for the stream, or unknown flags");
  }
  priority = std::clamp(priority, highest_priority, lowest_priority);
  *stream = machine().make<CUstream_st>(this_thread().device, flags, priority);
  return cudaSuccess;
}

cudaError_t destroy(cudaStream_t stream) {
  if (!live(stream) || stream->legacy) return refuse(cudaErrorInvalidResourceHandle, "no live stream");
  if (is_capturing(*stream)) abandon_capture(*stream);
  stream->alive = false;
  stream->worker.finish();  // what was enqueued still runs
  return cudaSuccess;
}

cudaError_t faults_of(const CUstream_st& stream) {
  release_unused_pool_memory();
  const cudaError_t fault = machine().fault(stream.device);
  if (fault == cudaSuccess) return cudaSuccess;
  return refuse(fault, machine().devices[static_cast<std::size_t>(stream.device)]->fault_reason);
}

cudaError_t with_stream(cudaStream_t handle, const std::function<cudaError_t(CUstream_st&)>& body) {
  CUstream_st* stream = nullptr;
  const cudaError_t bad = resolve(handle, &stream);
  return bad != cudaSuccess ? bad : body(*stream);
}

cudaError_t forbidden_in_capture(CUstream_st& stream, const char* what) {
  if (!is_capturing(stream)) return cudaSuccess;
  return refuse_and_invalidate(stream, cudaErrorStreamCaptureUnsupported,
                               fmt::format("{} while it is captured", what));
}

}  // namespace

cudaError_t resolve(cudaStream_t handle, CUstream_st** stream) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    *stream = legacy_stream(this_thread().device);
    return cudaSuccess;
  }
  if (handle == cudaStreamPerThread)
    return refuse(cudaErrorNotSupported, "per-thread streams are not modelled");
  if (!live(handle)) return refuse(cudaErrorInvalidResourceHandle, "no live stream");
  *stream = handle;
  return cudaSuccess;
}

cudaError_t submit(CUstream_st& stream, Work work) {
  if (is_capturing(stream)) return record_work(stream, std::move(work));
  if (stream.legacy) return submit_to_legacy(stream, std::move(work));
  push(stream, std::move(work));
  return cudaSuccess;
}

void execute(const Work& work, const CUstream_st& stream, OperationLog& log, bool replayed) {
  if (const auto fault = work.kind->execution->enter()) {
    machine().spoil(stream.device, static_cast<cudaError_t>(*fault),
                    fmt::format("a {} was made to fail", work.kind->name));
  }
  if (!work.always && machine().fault(stream.device) != cudaSuccess) return;
  if (work.logged) {
    log.add({work.kind->name, stream.device, const_cast<cudaStream_t>(&stream), replayed, work.target,
             work.bytes, machine().next_order.fetch_add(1, std::memory_order_relaxed)});
  }
  try {
    work.run();
  } catch (const std::exception& error) {
    machine().spoil(stream.device, cudaErrorLaunchFailure, error.what());
  }
}

bool is_capturing(const CUstream_st& stream) {
  return stream.capture.load(std::memory_order_relaxed) != nullptr;
}

Moment* mark(CUstream_st& stream) {
  Moment* moment = machine().moment();
  stream.worker.push([moment] { moment->pass(); });
  return moment;
}

void wait_for(CUstream_st& stream, const Moment* moment) {
  stream.worker.push([moment] { moment->passed.wait(1); });
}

}  // namespace cuda_double

using namespace cuda_double;

namespace simt {

cudaError_t enqueue(cudaStream_t stream, std::function<void()> kernel) {
  return cuda_call<"kernelLaunch">([&] {
    return with_stream(stream, [&](CUstream_st& on) {
      if (on.device != this_thread().device) {
        return refuse(cudaErrorInvalidResourceHandle,
                      fmt::format("a kernel on a stream of device {} while device {} is current", on.device,
                                  this_thread().device));
      }
      return submit(on, {.kind = kind<"kernel">(), .run = std::move(kernel)});
    });
  });
}

}  // namespace simt

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cuda_call<"cudaStreamCreate">([&] { return create(stream, cudaStreamDefault, 0); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cuda_call<"cudaStreamCreateWithFlags">([&] { return create(stream, flags, 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return cuda_call<"cudaStreamCreateWithPriority">([&] { return create(stream, flags, priority); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return cuda_call<"cudaDeviceGetStreamPriorityRange">([&] {
    if (least != nullptr) *least = lowest_priority;
    if (greatest != nullptr) *greatest = highest_priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return cuda_call<"cudaStreamDestroy", always>([&] { return destroy(stream); });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return cuda_call<"cudaStreamGetDevice">([&] {
    return with_stream(stream, [&](CUstream_st& of) {
      if (device == nullptr) return refuse(cudaErrorInvalidValue, "no result");
      *device = of.device;
      return cudaSuccess;
    });
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return cuda_call<"cudaStreamGetFlags">([&] {
    return with_stream(stream, [&](CUstream_st& of) {
      if (flags == nullptr) return refuse(cudaErrorInvalidValue, "no result");
      *flags = of.flags;
      return cudaSuccess;
    });
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return cuda_call<"cudaStreamGetPriority">([&] {
    return with_stream(stream, [&](CUstream_st& of) {
      if (priority == nullptr) return refuse(cudaErrorInvalidValue, "no result");
      *priority = of.priority;
      return cudaSuccess;
    });
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return cuda_call<"cudaStreamSynchronize", always>([&] {
    return with_stream(stream, [&](CUstream_st& on) {
      if (const cudaError_t bad = forbidden_in_capture(on, "a stream is waited for")) return bad;
      if (on.legacy)
        (void)submit(on, {.kind = kind<"synchronize">(), .run = [] {}, .always = true, .logged = false});
      on.worker.drain();
      return faults_of(on);
    });
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return cuda_call<"cudaStreamQuery">([&] {
    return with_stream(stream, [&](CUstream_st& on) {
      if (const cudaError_t bad = forbidden_in_capture(on, "a stream is queried")) return bad;
      if (!on.worker.idle()) return cudaErrorNotReady;
      return faults_of(on);
    });
  });
}

cudaError_t cudaDeviceSynchronize() {
  return cuda_call<"cudaDeviceSynchronize", always | unsafe>([&]() -> cudaError_t {
    const int device = this_thread().device;
    const auto streams = machine().streams();
    for (auto* stream : streams) {
      if (stream->device != device) continue;
      if (const cudaError_t bad = forbidden_in_capture(*stream, "the device of a stream is waited for"))
        return bad;
    }
    for (auto* stream : streams) {
      if (stream->device == device) stream->worker.drain();
    }
    return faults_of(*legacy_stream(device));
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return cuda_call<"cudaLaunchHostFunc">([&] {
    return with_stream(stream, [&](CUstream_st& on) {
      if (function == nullptr) return refuse(cudaErrorInvalidValue, "no function");
      return submit(on, {.kind = kind<"host function">(), .run = [=] { function(argument); }});
    });
  });
}
