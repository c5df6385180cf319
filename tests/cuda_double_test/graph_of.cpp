#include "graph_of.hpp"

#include <random>

namespace cuda_double {

Dims channels_closest(const Dims& d) { return {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]}; }

Dims row_major(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t axis = dims.size() - 1; axis-- > 0;) strides[axis] = strides[axis + 1] * dims[axis + 1];
  return strides;
}

Desc tensor(std::int64_t uid, const Dims& dims, const TensorOptions& options) {
  Desc made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const bool closest = dims.size() == 4 && !options.channels_first;
  made.integers(CUDNN_ATTR_TENSOR_UNIQUE_ID, {uid})
      .type(CUDNN_ATTR_TENSOR_DATA_TYPE, options.type)
      .integers(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .integers(CUDNN_ATTR_TENSOR_STRIDES, closest ? channels_closest(dims) : row_major(dims))
      .integers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {options.alignment});
  const bool yes = true;
  for (const auto& [wanted, name] : {std::pair{options.is_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL},
                                     std::pair{options.by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE}}) {
    if (wanted) {
      EXPECT_CUDNN(cudnnBackendSetAttribute(made.raw(), name, CUDNN_TYPE_BOOLEAN, 1, &yes));
    }
  }
  made.finalize();
  return made;
}

void Runner::SetUp() {
  DoubleTest::SetUp();
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  EXPECT_CUDNN(cudnnCreate(&handle_));
  EXPECT_CUDNN(cudnnSetStream(handle_, stream_));
}

void Runner::TearDown() {
  EXPECT_CUDNN(cudnnDestroy(handle_));
  EXPECT_CUDA(cudaStreamDestroy(stream_));
  DoubleTest::TearDown();
}

Desc Runner::graph(std::span<const Desc* const> operations) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Desc* operation : operations) raw.push_back(operation->raw());
  Desc made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw)
      .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle_})
      .finalize();
  return made;
}

std::vector<Desc> Runner::configurations(const Desc& of, cudnnBackendHeurMode_t mode) {
  Desc heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, of)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode})
      .finalize();
  std::int64_t count = 0;
  EXPECT_CUDNN(cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<Desc> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    raw.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
  }
  EXPECT_CUDNN(cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()));
  return found;
}

Desc Runner::plan(const Desc& configuration) {
  Desc made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
      .set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle_})
      .finalize();
  return made;
}

cudnnStatus_t Runner::execute(const Desc& planned, const std::vector<Bound>& tensors, void* workspace) {
  Dims uids;
  std::vector<void*> addresses;
  for (const Bound& bound : tensors) {
    uids.push_back(bound.uid);
    addresses.push_back(bound.address);
  }
  Desc pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{workspace})
      .finalize();
  return cudnnBackendExecute(handle_, planned.raw(), pack.raw());
}

void Runner::run(std::span<const Desc* const> operations, const std::vector<Bound>& tensors,
                 std::int64_t engine) {
  const Desc whole = graph(operations);
  const auto offered = configurations(whole, CUDNN_HEUR_MODE_A);
  const Desc planned = plan(offered.at(static_cast<std::size_t>(engine)));
  std::int64_t bytes = 0;
  EXPECT_CUDNN(cudnnBackendGetAttribute(planned.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                        CUDNN_TYPE_INT64, 1, nullptr, &bytes));
  const DeviceArray<char> workspace(static_cast<std::size_t>(bytes));
  EXPECT_CUDNN(execute(planned, tensors, workspace.data()));
  EXPECT_CUDA(cudaStreamSynchronize(stream_));
}

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

}  // namespace cuda_double
