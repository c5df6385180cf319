#pragma once

#include <map>
#include <thread>

#include "event.hpp"
#include "stream.hpp"

// A graph is what was captured: work, and for each piece the pieces it comes after. The pieces of one
// captured stream are a lane.
struct CUgraphNode_st {
  cuda_double::Work work{};
  std::vector<std::size_t> after{};  // positions in the graph
  std::size_t lane = 0;
  cudaEvent_t records = nullptr;  // external events
  cudaEvent_t waits = nullptr;
};

struct CUgraph_st : cuda_double::Object {
  CUgraph_st() : Object("graph") {}

  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // in order of capture
  std::vector<CUstream_st*> lanes;                     // the first is the origin

  void end();  // of the program's use
};

struct CUgraphExec_st : cuda_double::Object {
  explicit CUgraphExec_st(const CUgraph_st& graph);

  std::vector<CUgraphNode_st> nodes;
  std::vector<CUstream_st*> lanes;
  std::vector<std::unique_ptr<cuda_double::Worker>> workers;  // of the lanes but the first
  std::vector<cuda_double::OperationLog*> logs;
  std::mutex launching;
  const cuda_double::Moment* last_launch = nullptr;

  void end();
};

namespace cuda_double {

struct Branch {
  std::size_t lane = 0;
  std::vector<std::size_t> tips;  // what the stream's next work comes after
};

struct Capture : Object {
  Capture() : Object("capture") {}

  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  std::uint64_t id = 0;
  bool invalid = false;
  CUgraph_st* graph = nullptr;
  std::map<CUstream_st*, Branch> branches;
};

struct Captures {
  std::mutex mutex;  // of all captures; not taken where nothing is captured
  std::atomic<int> active{0};
  std::uint64_t next_id = 1;
  std::vector<Capture*> open;
};

// An entry point that is not safe during a capture, by the modes of captures and threads.
cudaError_t refuse_unsafe_call(const std::string& call);

// Something that a captured stream does not allow: the capture is void.
cudaError_t refuse_and_invalidate(CUstream_st& stream, cudaError_t status, std::string reason);
cudaError_t refuse_and_invalidate(Capture& capture, cudaError_t status, std::string reason);

void abandon_capture(CUstream_st& stream);

cudaError_t record_work(CUstream_st& stream, Work work);
cudaError_t record_event(CUstream_st& stream, CUevent_st& event, bool external);
// The waiting stream may join the event's capture.
cudaError_t record_wait(CUstream_st& stream, CUevent_st& event, bool external);

}  // namespace cuda_double
