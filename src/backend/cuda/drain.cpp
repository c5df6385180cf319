#include "backend/cuda/drain.hpp"

#include <thread>

#include "base/log.hpp"

namespace dtrain::backend::cuda {

namespace {

constexpr Seconds patience{20.0};

}  // namespace

Drain::~Drain() {
  if (!*stream_) return;
  const Deadline deadline = Deadline::in(patience);
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream_->get());
    cudaGetLastError();
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) break;
    if (deadline.passed()) {
      log_warning(
          "a GPU still works on something that is no longer wanted; freeing its memory may take long");
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  cudaStreamSynchronize(stream_->get());  // returns at once where the device has failed
  cudaGetLastError();
}

}  // namespace dtrain::backend::cuda
