#include "backend/cuda/drain.hpp"

#include <thread>

#include "base/log.hpp"

namespace dtrain::backend::cuda {

namespace {

constexpr Seconds patience{20.0};
constexpr int most_errors = 3;  // a stream of a device that has failed does no more work

}  // namespace

Drain::~Drain() {
  if (!*stream_) return;
  const Deadline deadline = Deadline::in(patience);
  for (int errors = 0; errors < most_errors;) {
    const cudaError_t status = cudaStreamQuery(stream_->get());
    if (status == cudaSuccess) return;
    cudaGetLastError();
    if (status != cudaErrorNotReady) {
      ++errors;
      continue;
    }
    if (deadline.passed()) {
      log_warning(
          "a GPU still works on something that is no longer wanted; freeing its memory may take long");
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace dtrain::backend::cuda
