#include "backend/cuda/stream.hpp"

#include <thread>

namespace dtrain::backend::cuda {

Stream make_stream(Urgency urgency) {
  int least = 0;
  int greatest = 0;
  DTRAIN_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  DTRAIN_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                           urgency == Urgency::urgent ? greatest : least));
  return Stream(stream);
}

Event make_event(Timing timing) {
  cudaEvent_t event = nullptr;
  DTRAIN_CUDA(
      cudaEventCreateWithFlags(&event, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming));
  return Event(event);
}

bool wait_for(cudaEvent_t event, const Deadline& deadline) {
  constexpr int patient_polls = 20'000;  // some tens of milliseconds: longer than most steps
  for (int polls = 0;; ++polls) {
    const cudaError_t status = cudaEventQuery(event);
    if (status == cudaSuccess) return true;
    if (status != cudaErrorNotReady) DTRAIN_CUDA(status);
    cudaGetLastError();  // not ready is no error for a later call to find
    if (deadline.passed()) return false;
    if (polls > patient_polls) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace dtrain::backend::cuda
