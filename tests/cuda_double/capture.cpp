#include "capture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "entry.hpp"

namespace cuda_double {
namespace {

Captures& captures() { return *machine().captures; }

// Only with the mutex of captures.
cudaError_t invalid(const Capture& capture) {
  if (!capture.invalid) return cudaSuccess;
  return refuse(cudaErrorStreamCaptureInvalidated, "an earlier call has made the capture void");
}

std::size_t add_node(CUstream_st& stream, CUgraphNode_st node) {
  Capture& capture = *stream.capture;
  Branch& branch = capture.branches.at(&stream);
  node.after = branch.tips;
  node.lane = branch.lane;
  const std::size_t position = capture.graph->nodes.size();
  capture.graph->nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(node)));
  branch.tips = {position};
  return position;
}

void join(CUstream_st& stream, Capture& capture, const std::vector<std::size_t>& tips) {
  auto [branch, fresh] = capture.branches.try_emplace(&stream);
  if (fresh) {
    branch->second.lane = capture.graph->lanes.size();
    capture.graph->lanes.push_back(&stream);
    stream.capture.store(&capture, std::memory_order_relaxed);
  }
  for (const std::size_t tip : tips) {
    auto& own = branch->second.tips;
    if (std::find(own.begin(), own.end(), tip) == own.end()) own.push_back(tip);
  }
}

void close(Capture& capture) {
  for (auto& [stream, branch] : capture.branches) stream->capture.store(nullptr, std::memory_order_relaxed);
  capture.alive = false;
  std::erase(captures().open, &capture);
  captures().active.fetch_sub(1);
}

bool all_joined(const Capture& capture) {
  const auto& nodes = capture.graph->nodes;
  std::vector<bool> reached(nodes.size(), false);
  std::vector<std::size_t> next = capture.branches.at(capture.origin).tips;
  while (!next.empty()) {
    const std::size_t node = next.back();
    next.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    next.insert(next.end(), nodes[node]->after.begin(), nodes[node]->after.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

cudaError_t begin(cudaStream_t handle, cudaStreamCaptureMode mode) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t bad = resolve(handle, &stream)) return bad;
  if (stream->legacy)
    return refuse(cudaErrorStreamCaptureUnsupported, "the legacy stream cannot be captured");
  if (is_capturing(*stream)) return refuse(cudaErrorIllegalState, "the stream is captured already");
  auto* capture = machine().make<Capture>();
  capture->owned_by_program = false;
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->graph = machine().make<CUgraph_st>();
  capture->graph->owned_by_program = false;
  const std::lock_guard lock(captures().mutex);
  capture->id = captures().next_id++;
  captures().open.push_back(capture);
  captures().active.fetch_add(1);
  join(*stream, *capture, {});
  return cudaSuccess;
}

cudaError_t end(cudaStream_t handle, cudaGraph_t* graph) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t bad = resolve(handle, &stream)) return bad;
  const std::lock_guard lock(captures().mutex);
  if (!is_capturing(*stream)) return refuse(cudaErrorIllegalState, "the stream is not captured");
  Capture& capture = *stream->capture;
  if (capture.origin != stream) {
    return refuse(cudaErrorStreamCaptureUnmatched, "the capture did not begin on this stream");
  }
  if (capture.mode != cudaStreamCaptureModeRelaxed && capture.thread != std::this_thread::get_id()) {
    return refuse(cudaErrorStreamCaptureWrongThread, "the capture began on another thread");
  }
  close(capture);
  if (const cudaError_t bad = invalid(capture)) {
    capture.graph->end();
    return bad;
  }
  if (!all_joined(capture)) {
    capture.graph->end();
    return refuse(cudaErrorStreamCaptureUnjoined, "work of another stream has not been joined to the origin");
  }
  capture.graph->owned_by_program = true;
  capture.graph->site = current_site();
  *graph = capture.graph;
  return cudaSuccess;
}

}  // namespace

cudaError_t refuse_unsafe_call(const std::string& call) {
  if (captures().active.load(std::memory_order_relaxed) == 0) return cudaSuccess;
  const cudaStreamCaptureMode mode = this_thread().capture_mode;
  if (mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  const std::lock_guard lock(captures().mutex);
  cudaError_t status = cudaSuccess;
  for (Capture* capture : captures().open) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbidden =
        own ? capture->mode != cudaStreamCaptureModeRelaxed
            : capture->mode == cudaStreamCaptureModeGlobal && mode == cudaStreamCaptureModeGlobal;
    if (!forbidden) continue;
    capture->invalid = true;
    status =
        refuse(cudaErrorStreamCaptureUnsupported,
               fmt::format("{} while {} is captured", call, own ? "a stream" : "a stream of another thread"));
  }
  return status;
}

cudaError_t refuse_and_invalidate(Capture& capture, cudaError_t status, std::string reason) {
  const std::lock_guard lock(captures().mutex);
  capture.invalid = true;
  return refuse(status, std::move(reason));
}

cudaError_t refuse_and_invalidate(CUstream_st& stream, cudaError_t status, std::string reason) {
  Capture* capture = stream.capture;
  return capture == nullptr ? refuse(status, std::move(reason))
                            : refuse_and_invalidate(*capture, status, std::move(reason));
}

void abandon_capture(CUstream_st& stream) {
  const std::lock_guard lock(captures().mutex);
  Capture* capture = stream.capture;
  if (capture == nullptr) return;
  capture->invalid = true;
  if (capture->origin != &stream) return;
  close(*capture);
  capture->graph->end();
}

cudaError_t record_work(CUstream_st& stream, Work work) {
  const std::lock_guard lock(captures().mutex);
  if (const cudaError_t bad = invalid(*stream.capture)) return bad;
  if (work.recorded) work.recorded(+1);
  add_node(stream, {.work = std::move(work)});
  return cudaSuccess;
}

cudaError_t record_event(CUstream_st& stream, CUevent_st& event, bool external) {
  const std::lock_guard lock(captures().mutex);
  Capture& capture = *stream.capture;
  if (const cudaError_t bad = invalid(capture)) return bad;
  if (external) {
    add_node(stream,
             {.work = {.kind = kind<"event record">(), .always = true, .target = &event}, .records = &event});
    return cudaSuccess;
  }
  event.captured_after = capture.branches.at(&stream).tips;
  event.capture = &capture;
  return cudaSuccess;
}

cudaError_t record_wait(CUstream_st& stream, CUevent_st& event, bool external) {
  const std::lock_guard lock(captures().mutex);
  Capture* own = stream.capture;
  Capture* other = event.capture;
  if (own != nullptr) {
    if (const cudaError_t bad = invalid(*own)) return bad;
  }
  const auto void_both = [&](cudaError_t status, const char* reason) {
    if (own != nullptr) own->invalid = true;
    if (live(other)) other->invalid = true;
    return refuse(status, reason);
  };
  if (external) {
    if (own == nullptr)
      return void_both(cudaErrorIllegalState, "an external wait on a stream that is not captured");
    add_node(stream,
             {.work = {.kind = kind<"event wait">(), .always = true, .target = &event}, .waits = &event});
    return cudaSuccess;
  }
  if (other == nullptr) {
    return void_both(cudaErrorStreamCaptureIsolation,
                     "a captured stream waits for an event recorded outside");
  }
  if (!live(other)) return void_both(cudaErrorCapturedEvent, "the event's capture has ended");
  if (own != nullptr && own != other)
    return void_both(cudaErrorStreamCaptureMerge, "two captures would merge");
  if (const cudaError_t bad = invalid(*other)) return bad;
  if (stream.legacy)
    return void_both(cudaErrorStreamCaptureImplicit, "the legacy stream would join a capture");
  join(stream, *other, event.captured_after);
  return cudaSuccess;
}

}  // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return cuda_call<"cudaStreamBeginCapture">([&] { return begin(stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  cudaGraph_t made = nullptr;
  const cudaError_t status = cuda_call<"cudaStreamEndCapture", always>([&] { return end(stream, &made); });
  if (status != cudaSuccess && made != nullptr) made->end();
  if (graph != nullptr) *graph = status == cudaSuccess ? made : nullptr;
  return status;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cuda_call<"cudaStreamIsCapturing">([&]() -> cudaError_t {
    CUstream_st* of = nullptr;
    if (const cudaError_t bad = resolve(stream, &of)) return bad;
    const std::lock_guard lock(captures().mutex);
    const Capture* capture = of->capture;
    *status = capture == nullptr ? cudaStreamCaptureStatusNone
              : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  return cuda_call<"cudaStreamGetCaptureInfo">([&]() -> cudaError_t {
    CUstream_st* of = nullptr;
    if (const cudaError_t bad = resolve(stream, &of)) return bad;
    if (dependencies != nullptr || edges != nullptr || count != nullptr) {
      return refuse(cudaErrorNotSupported, "the double does not list dependencies");
    }
    const std::lock_guard lock(captures().mutex);
    const Capture* capture = of->capture;
    *status = capture == nullptr ? cudaStreamCaptureStatusNone
              : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
    if (id != nullptr) *id = capture == nullptr ? 0 : capture->id;
    if (graph != nullptr) *graph = capture == nullptr ? nullptr : capture->graph;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return cuda_call<"cudaThreadExchangeStreamCaptureMode">([&] {
    if (mode == nullptr) return refuse(cudaErrorInvalidValue, "no mode");
    std::swap(*mode, this_thread().capture_mode);
    return cudaSuccess;
  });
}
