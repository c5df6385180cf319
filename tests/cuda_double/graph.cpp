#include <fmt/format.h>

#include "capture.hpp"
#include "entry.hpp"
#include "machine.hpp"

namespace cuda_double {
namespace {

void tell(const CUgraphNode_st& node, int change) {
  if (node.work.recorded) node.work.recorded(change);
}

}  // namespace
}  // namespace cuda_double

CUgraphExec_st::CUgraphExec_st(const CUgraph_st& graph) : Object("executable graph"), lanes(graph.lanes) {
  for (const auto& node : graph.nodes) nodes.push_back(*node);
  for (const auto& node : nodes) cuda_double::tell(node, +1);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    logs.push_back(cuda_double::machine().log());
    if (lane > 0) workers.push_back(std::make_unique<cuda_double::Worker>());
  }
}

void CUgraph_st::end() {
  alive = false;
  for (const auto& node : nodes) cuda_double::tell(*node, -1);
}

void CUgraphExec_st::end() {
  alive = false;
  for (const auto& node : nodes) cuda_double::tell(node, -1);
  for (const auto& worker : workers) worker->finish();  // what was launched still runs
}

namespace cuda_double {
namespace {

// One replay. Every lane is a thread, and waits for other lanes only where the capture did.
struct Launch {
  explicit Launch(const CUgraphExec_st& exec)
      : done(std::make_unique<Signal[]>(exec.nodes.size())), moments(exec.nodes.size(), nullptr) {}

  std::unique_ptr<Signal[]> done;
  std::vector<Moment*> moments;  // of external records and waits, as they are at the launch
  Signal started;
  Signal lanes_done;
};

void run_node(const CUgraphExec_st& exec, Launch& launch, std::size_t position) {
  const CUgraphNode_st& node = exec.nodes[position];
  Work work = node.work;
  if (node.records != nullptr) work.run = [&] { launch.moments[position]->pass(); };
  if (node.waits != nullptr) {
    work.run = [&] {
      if (const Moment* moment = launch.moments[position]) moment->passed.wait(1);
    };
  }
  execute(work, *exec.lanes[node.lane], *exec.logs[node.lane], true);
}

void run_lane(const CUgraphExec_st& exec, Launch& launch, std::size_t lane) {
  for (std::size_t position = 0; position < exec.nodes.size(); ++position) {
    const CUgraphNode_st& node = exec.nodes[position];
    if (node.lane != lane) continue;
    for (const std::size_t before : node.after) {
      if (exec.nodes[before].lane != lane) launch.done[before].wait(1);
    }
    run_node(exec, launch, position);
    launch.done[position].raise();
  }
}

cudaError_t bind_events(const CUgraphExec_st& exec, Launch& launch) {
  for (std::size_t position = 0; position < exec.nodes.size(); ++position) {
    const CUgraphNode_st& node = exec.nodes[position];
    for (cudaEvent_t event : {node.records, node.waits}) {
      if (event != nullptr && !live(event)) {
        return refuse(cudaErrorInvalidResourceHandle, "an external event of the graph was destroyed");
      }
    }
    if (node.waits != nullptr) launch.moments[position] = node.waits->last.load(std::memory_order_acquire);
    if (node.records == nullptr) continue;
    launch.moments[position] = machine().moment();
    node.records->capture = nullptr;
    node.records->last.store(launch.moments[position], std::memory_order_release);
  }
  return cudaSuccess;
}

cudaError_t launch(CUgraphExec_st& exec, CUstream_st& stream) {
  const std::lock_guard lock(exec.launching);
  auto owned = std::make_unique<Launch>(exec);
  if (const cudaError_t bad = bind_events(exec, *owned)) return bad;
  Launch* replay = owned.get();
  Moment* finished = machine().moment();
  const auto run = [&exec, replay, finished, previous = exec.last_launch] {
    if (previous != nullptr) previous->passed.wait(1);
    replay->started.raise();
    run_lane(exec, *replay, 0);
    replay->lanes_done.wait(static_cast<std::uint32_t>(exec.workers.size()));
    delete replay;
    finished->pass();
  };
  const cudaError_t status = submit(stream, {.kind = kind<"graph launch">(), .run = run, .always = true});
  if (status != cudaSuccess) return status;
  (void)owned.release();
  exec.last_launch = finished;
  for (std::size_t lane = 1; lane < exec.lanes.size(); ++lane) {
    exec.workers[lane - 1]->push([&exec, replay, lane] {
      replay->started.wait(1);
      run_lane(exec, *replay, lane);
      replay->lanes_done.raise();
    });
  }
  return cudaSuccess;
}

cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  if (exec == nullptr || !live(graph))
    return refuse(cudaErrorInvalidValue, "no place for the result, or no graph");
  if ((flags & ~static_cast<unsigned long long>(cudaGraphInstantiateFlagUseNodePriority)) != 0) {
    return refuse(cudaErrorInvalidValue, "flags that the double does not model");
  }
  *exec = machine().make<CUgraphExec_st>(*graph);
  return cudaSuccess;
}

cudaError_t with_graph_and_stream(cudaGraphExec_t exec, cudaStream_t handle, CUstream_st** stream) {
  if (!live(exec)) return refuse(cudaErrorInvalidValue, "no live executable graph");
  if (const cudaError_t bad = resolve(handle, stream)) return bad;
  if (!is_capturing(**stream)) return cudaSuccess;
  return refuse_and_invalidate(**stream, cudaErrorStreamCaptureUnsupported,
                               "the double does not model graphs within graphs");
}

}  // namespace
}  // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cuda_call<"cudaGraphInstantiate">([&] { return instantiate(exec, graph, flags); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cuda_call<"cudaGraphInstantiateWithFlags">([&] { return instantiate(exec, graph, flags); });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return cuda_call<"cudaGraphUpload">([&] {
    CUstream_st* on = nullptr;
    return with_graph_and_stream(exec, stream, &on);
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return cuda_call<"cudaGraphLaunch">([&] {
    CUstream_st* on = nullptr;
    const cudaError_t bad = with_graph_and_stream(exec, stream, &on);
    return bad != cudaSuccess ? bad : launch(*exec, *on);
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return cuda_call<"cudaGraphExecDestroy", always>([&] {
    if (!live(exec)) return refuse(cudaErrorInvalidValue, "no live executable graph");
    exec->end();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return cuda_call<"cudaGraphDestroy", always>([&] {
    if (!live(graph)) return refuse(cudaErrorInvalidValue, "no live graph");
    graph->end();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return cuda_call<"cudaGraphGetNodes">([&] {
    if (!live(graph) || count == nullptr) return refuse(cudaErrorInvalidValue, "no graph or no result");
    if (nodes == nullptr) {
      *count = graph->nodes.size();
      return cudaSuccess;
    }
    for (std::size_t i = 0; i < *count; ++i)
      nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
    *count = std::min(*count, graph->nodes.size());
    return cudaSuccess;
  });
}
