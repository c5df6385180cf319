#include "simt/simt.hpp"

// These tests know one stream, and everything enqueued on it is done at once.
cudaError_t simt::enqueue(cudaStream_t, std::function<void()> kernel) {
  kernel();
  return cudaSuccess;
}
