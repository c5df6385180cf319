#include "backend/cuda/recorder.hpp"

#include "base/error.hpp"

namespace dtrain::backend::cuda {

void Recorder::run(const Kind& kind, const std::function<void()>& enqueue) {
  Entry& entry = entries_[kind];
  if (!entry.graph && !entry.seen) {
    entry.seen = true;
    return enqueue();
  }
  if (!entry.graph) entry.graph = record(enqueue);
  DTRAIN_CUDA(cudaGraphLaunch(entry.graph.get(), stream_));
}

// Only this thread's calls are watched while it records: other replicas may allocate meanwhile.
GraphExec Recorder::record(const std::function<void()>& enqueue) {
  DTRAIN_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  recording_ = true;
  try {
    enqueue();
  } catch (...) {
    drop_capture();
    throw;
  }
  recording_ = false;
  cudaGraph_t raw = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_, &raw);
  const Graph graph(raw);
  DTRAIN_CUDA(status);
  cudaGraphExec_t executable = nullptr;
  DTRAIN_CUDA(cudaGraphInstantiate(&executable, graph.get(), 0));
  return GraphExec(executable);
}

void Recorder::drop_capture() noexcept {
  recording_ = false;
  cudaGraph_t unfinished = nullptr;
  cudaStreamEndCapture(stream_, &unfinished);  // fails, as the capture did
  if (unfinished != nullptr) DTRAIN_CUDA_QUIETLY(cudaGraphDestroy(unfinished));
  cudaGetLastError();
}

}  // namespace dtrain::backend::cuda
