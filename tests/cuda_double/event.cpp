#include "event.hpp"

#include <fmt/format.h>

#include "capture.hpp"
#include "entry.hpp"
#include "memory.hpp"
#include "stream.hpp"

namespace cuda_double {
namespace {

constexpr unsigned known_flags = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

cudaError_t create(cudaEvent_t* event, unsigned flags) {
  if (event == nullptr || (flags & ~known_flags) != 0) {
    return refuse(cudaErrorInvalidValue, "no place for the event, or unknown flags");
  }
  if ((flags & cudaEventInterprocess) != 0)
    return refuse(cudaErrorNotSupported, "no events between processes");
  *event = machine().make<CUevent_st>(this_thread().device, flags);
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t bad = resolve(handle, &stream)) return bad;
  if (!live(event)) return refuse(cudaErrorInvalidResourceHandle, "no live event");
  if ((flags & ~static_cast<unsigned>(cudaEventRecordExternal)) != 0)
    return refuse(cudaErrorInvalidValue, "flags");
  if (event->device != stream->device) {
    return refuse(
        cudaErrorInvalidResourceHandle,
        fmt::format("an event of device {} on a stream of device {}", event->device, stream->device));
  }
  const bool external = (flags & cudaEventRecordExternal) != 0;
  if (is_capturing(*stream)) return record_event(*stream, *event, external);
  if (external) return refuse(cudaErrorIllegalState, "an external record on a stream that is not captured");
  Moment* moment = machine().moment();
  event->capture = nullptr;
  event->last.store(moment, std::memory_order_release);
  return submit(
      *stream,
      {.kind = kind<"event record">(), .run = [moment] { moment->pass(); }, .always = true, .target = event});
}

cudaError_t wait(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t bad = resolve(handle, &stream)) return bad;
  if (!live(event)) return refuse(cudaErrorInvalidResourceHandle, "no live event");
  if ((flags & ~static_cast<unsigned>(cudaEventWaitExternal)) != 0)
    return refuse(cudaErrorInvalidValue, "flags");
  const bool external = (flags & cudaEventWaitExternal) != 0;
  if (is_capturing(*stream) || event->capture != nullptr) return record_wait(*stream, *event, external);
  if (external) return refuse(cudaErrorIllegalState, "an external wait on a stream that is not captured");
  const Moment* moment = event->last.load(std::memory_order_acquire);
  if (moment == nullptr) return cudaSuccess;
  return submit(*stream, {.kind = kind<"event wait">(),
                          .run = [moment] { moment->passed.wait(1); },
                          .always = true,
                          .target = event});
}

// Not allowed on an event that a capture has recorded.
cudaError_t check(cudaEvent_t event) {
  if (!live(event)) return refuse(cudaErrorInvalidResourceHandle, "no live event");
  if (event->capture == nullptr) return cudaSuccess;
  return refuse_and_invalidate(*event->capture.load(), cudaErrorCapturedEvent,
                               "an event of a captured stream");
}

cudaError_t fault_of(const CUevent_st& event) {
  release_unused_pool_memory();
  const cudaError_t fault = machine().fault(event.device);
  if (fault == cudaSuccess) return cudaSuccess;
  return refuse(fault, machine().devices[static_cast<std::size_t>(event.device)]->fault_reason);
}

cudaError_t elapsed(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (milliseconds == nullptr) return refuse(cudaErrorInvalidValue, "no result");
  for (cudaEvent_t event : {start, end}) {
    if (const cudaError_t bad = check(event)) return bad;
    const bool timed = (event->flags & cudaEventDisableTiming) == 0;
    if (!timed || event->last.load(std::memory_order_acquire) == nullptr) {
      return refuse(cudaErrorInvalidResourceHandle, "an event without a time, or never recorded");
    }
  }
  if (start->device != end->device) return refuse(cudaErrorInvalidResourceHandle, "events of two devices");
  const Moment& from = *start->last.load(std::memory_order_acquire);
  const Moment& to = *end->last.load(std::memory_order_acquire);
  if (!from.passed.reached(1) || !to.passed.reached(1)) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to.time - from.time).count();
  return cudaSuccess;
}

}  // namespace
}  // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cuda_call<"cudaEventCreate">([&] { return create(event, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return cuda_call<"cudaEventCreateWithFlags">([&] { return create(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return cuda_call<"cudaEventDestroy", always>([&] {
    if (!live(event)) return refuse(cudaErrorInvalidResourceHandle, "no live event");
    event->alive = false;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cuda_call<"cudaEventRecord">([&] { return record(event, stream, cudaEventRecordDefault); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return cuda_call<"cudaEventRecordWithFlags">([&] { return record(event, stream, flags); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return cuda_call<"cudaStreamWaitEvent">([&] { return wait(stream, event, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return cuda_call<"cudaEventQuery", unsafe>([&]() -> cudaError_t {
    if (const cudaError_t bad = check(event)) return bad;
    const Moment* moment = event->last.load(std::memory_order_acquire);
    if (moment != nullptr && !moment->passed.reached(1)) return cudaErrorNotReady;
    return fault_of(*event);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return cuda_call<"cudaEventSynchronize", always | unsafe>([&]() -> cudaError_t {
    if (const cudaError_t bad = check(event)) return bad;
    if (const Moment* moment = event->last.load(std::memory_order_acquire)) moment->passed.wait(1);
    return fault_of(*event);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return cuda_call<"cudaEventElapsedTime">([&] { return elapsed(milliseconds, start, end); });
}
