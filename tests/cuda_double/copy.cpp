#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "capture.hpp"
#include "entry.hpp"
#include "memory.hpp"
#include "stream.hpp"

namespace cuda_double {
namespace {

const char* name_of(Place place) {
  switch (place) {
    case Place::device:
      return "device memory";
    case Place::pinned:
      return "pinned memory";
    case Place::registered:
      return "registered memory";
    case Place::pageable:
      return "pageable memory (or freed)";
  }
  return "?";
}

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  Place to_place = Place::pageable;
  Place from_place = Place::pageable;

  bool on_device_only() const { return to_place == Place::device && from_place == Place::device; }
};

// The kind has to say what the pointers are.
cudaError_t check(Copy& copy, cudaMemcpyKind kind) {
  if (copy.to == nullptr || copy.from == nullptr)
    return refuse(cudaErrorInvalidValue, "copy from or to nothing");
  const Region to = region_of(copy.to, copy.bytes);
  const Region from = region_of(copy.from, copy.bytes);
  copy.to_place = to.place;
  copy.from_place = from.place;
  if (!to.whole || !from.whole) {
    return refuse(cudaErrorInvalidValue, fmt::format("a copy of {} bytes reaches beyond its {}", copy.bytes,
                                                     to.whole ? "source" : "destination"));
  }
  if (kind == cudaMemcpyDefault) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (!to_device && !from_device && kind != cudaMemcpyHostToHost) {
    return refuse(cudaErrorInvalidMemcpyDirection, "no such kind of copy");
  }
  if (to_device == (to.place == Place::device) && from_device == (from.place == Place::device))
    return cudaSuccess;
  return refuse(cudaErrorInvalidValue, fmt::format("the kind of the copy does not fit: it goes from {} to {}",
                                                   name_of(from.place), name_of(to.place)));
}

Work copying(const Copy& copy) {
  return {.kind = kind<"memcpy">(),
          .run = [=] { std::memmove(copy.to, copy.from, copy.bytes); },
          .target = copy.to,
          .bytes = copy.bytes};
}

cudaError_t copy_async(Copy copy, cudaMemcpyKind kind, cudaStream_t handle) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t bad = resolve(handle, &stream)) return bad;
  if (copy.bytes == 0) return cudaSuccess;
  if (const cudaError_t bad = check(copy, kind)) return bad;
  const bool pageable = copy.to_place == Place::pageable || copy.from_place == Place::pageable;
  if (!pageable) return submit(*stream, copying(copy));
  if (is_capturing(*stream)) {
    return refuse_and_invalidate(*stream, cudaErrorStreamCaptureUnsupported,
                                 "the double does not model copies of pageable memory in graphs");
  }
  if (copy.to_place == Place::device) {  // staged: the source is free when the call returns
    const auto* bytes = static_cast<const unsigned char*>(copy.from);
    std::vector<unsigned char> staged(bytes, bytes + copy.bytes);
    return submit(
        *stream,
        {.kind = cuda_double::kind<"memcpy">(),
         .run = [=, staged = std::move(staged)] { std::memcpy(copy.to, staged.data(), staged.size()); },
         .target = copy.to,
         .bytes = copy.bytes});
  }
  const cudaError_t status = submit(*stream, copying(copy));
  if (status == cudaSuccess) stream->worker.drain();
  return status;
}

// On the legacy stream; waits unless both ends are on devices.
cudaError_t copy_now(Copy copy, cudaMemcpyKind kind) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t bad = resolve(nullptr, &stream)) return bad;
  if (copy.bytes == 0) return cudaSuccess;
  if (const cudaError_t bad = check(copy, kind)) return bad;
  const cudaError_t status = submit(*stream, copying(copy));
  if (status == cudaSuccess && !copy.on_device_only()) stream->worker.drain();
  return status == cudaSuccess ? machine().fault(stream->device) : status;
}

cudaError_t set_async(void* address, int value, std::size_t bytes, cudaStream_t handle) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t bad = resolve(handle, &stream)) return bad;
  if (bytes == 0) return cudaSuccess;
  if (const cudaError_t bad = require_device_memory(address, bytes, stream->device, "the memory to set"))
    return bad;
  return submit(*stream, {.kind = kind<"memset">(),
                          .run = [=] { std::memset(address, value, bytes); },
                          .target = address,
                          .bytes = bytes});
}

}  // namespace
}  // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cuda_call<"cudaMemcpy", unsafe>([&] { return copy_now({to, from, bytes}, kind); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cuda_call<"cudaMemcpyAsync">([&] { return copy_async({to, from, bytes}, kind, stream); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return cuda_call<"cudaMemcpyPeerAsync">([&] {
    if (region_of(to, bytes).device != to_device || region_of(from, bytes).device != from_device) {
      return refuse(cudaErrorInvalidValue, "memory that is not on the device named");
    }
    return copy_async({to, from, bytes}, cudaMemcpyDeviceToDevice, stream);
  });
}

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  return cuda_call<"cudaMemset", unsafe>([&] { return set_async(address, value, bytes, nullptr); });
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  return cuda_call<"cudaMemsetAsync">([&] { return set_async(address, value, bytes, stream); });
}
