#pragma once

#include <utility>

#include "backend/cuda/check.hpp"
#include "base/units.hpp"

namespace dtrain::backend::cuda {

// Makes a device current for this thread, for as long as it lives.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    DTRAIN_CUDA(cudaGetDevice(&before_));
    if (device != before_) DTRAIN_CUDA(cudaSetDevice(device));
  }
  ~OnDevice() { DTRAIN_CUDA_QUIETLY(cudaSetDevice(before_)); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

// Owns a handle that is made and destroyed by one call each.
template <class Handle, cudaError_t (*destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) DTRAIN_CUDA_QUIETLY(destroy(handle_));
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Handle handle_ = nullptr;
};

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

// On the current device. Streams do not wait for the legacy default stream; urgent ones go first where blocks
// compete.
enum class Urgency { normal, urgent };
Stream make_stream(Urgency urgency = Urgency::normal);

enum class Timing { off, on };
Event make_event(Timing timing = Timing::off);

// Returns when the event has passed, or with false when the deadline has.
bool wait_for(cudaEvent_t event, const Deadline& deadline);

}  // namespace dtrain::backend::cuda
