#include "graph_of.hpp"

namespace cuda_double {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Cudnn : public Runner {
 protected:
  // y = 2 x, as x + x.
  Desc doubling() {
    Desc parameter(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    parameter.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{CUDNN_POINTWISE_ADD})
        .type(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
        .finalize();
    const Desc x = tensor(1, {1, 4, 1, 1});
    const Desc y = tensor(2, {1, 4, 1, 1});
    Desc operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parameter)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, x)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)
        .finalize();
    return operation;
  }
  Desc fallback_plan() {
    const Desc operation = doubling();
    const Desc* one = &operation;
    const Desc whole = graph(std::span(&one, 1));
    return plan(configurations(whole, CUDNN_HEUR_MODE_FALLBACK).at(0));
  }
};

template <class T>
std::vector<T> get(const Desc& from, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) {
  std::vector<T> values(16);
  std::int64_t count = 0;
  EXPECT_CUDNN(cudnnBackendGetAttribute(from.raw(), name, type, 16, &count, values.data()));
  values.resize(static_cast<std::size_t>(count));
  return values;
}

TEST_F(Cudnn, ChecksWhatIsSet) {
  Desc x(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::int64_t one = 1;
  const float real = 1;
  EXPECT_EQ(cudnnBackendSetAttribute(x.raw(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1, &real),
            CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(cudnnBackendSetAttribute(x.raw(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 0, &one),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnBackendSetAttribute(x.raw(), CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_INT64, 1, &one),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_THAT(last_refusal(), HasSubstr("a tensor has no attribute 1500"));
  EXPECT_EQ(x.try_finalize(), CUDNN_STATUS_BAD_PARAM);
  char message[200] = "";
  cudnnGetLastErrorString(message, sizeof message);
  EXPECT_STREQ(message, "'unique id' of a tensor is missing");
  Desc operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  const cudnnBackendDescriptor_t raw = x.raw();
  EXPECT_EQ(cudnnBackendSetAttribute(operation.raw(), CUDNN_ATTR_OPERATION_MATMUL_ADESC,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw),
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  EXPECT_EQ(cudnnBackendSetAttribute(operation.raw(), CUDNN_ATTR_OPERATION_MATMUL_DESC,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw),
            CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
  cudnnBackendDescriptor_t unknown = nullptr;
  EXPECT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR, &unknown),
            CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(Cudnn, OffersEnginesThatDiffer) {
  const Desc operation = doubling();
  const Desc* one = &operation;
  const Desc whole = graph(std::span(&one, 1));
  const auto offered = configurations(whole, CUDNN_HEUR_MODE_A);
  ASSERT_EQ(offered.size(), 3U);
  const std::vector<cudnnBackendNumericalNote_t> expected[] = {
      {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS},
      {},
      {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}};
  for (std::size_t i = 0; i < 3; ++i) {
    const Desc engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t raw = engine.raw();
    EXPECT_CUDNN(cudnnBackendGetAttribute(offered[i].raw(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, nullptr, &raw));
    EXPECT_THAT(get<std::int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64), ElementsAre(i));
    EXPECT_EQ(
        get<cudnnBackendNumericalNote_t>(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE),
        expected[i]);
  }
  const Desc first = plan(offered[0]);
  const Desc second = plan(offered[1]);
  const auto workspace = CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
  EXPECT_GT(get<std::int64_t>(first, workspace, CUDNN_TYPE_INT64)[0],
            get<std::int64_t>(second, workspace, CUDNN_TYPE_INT64)[0]);
  EXPECT_THAT(get<std::int64_t>(fallback_plan(), workspace, CUDNN_TYPE_INT64), ElementsAre(0));
  Desc unbound(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  unbound.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, offered[0]);
  EXPECT_EQ(unbound.try_finalize(), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(Cudnn, ExecutesOnlyWhatIsBoundToLiveAlignedMemoryOfItsDevice) {
  const Desc planned = fallback_plan();
  const DeviceArray<float> x(std::vector<float>{1, 2, 3, 4, 5});
  const DeviceArray<float> y(4);
  const DeviceArray<float> small(3);
  float host[4] = {};
  const auto status = [&](const std::vector<Bound>& bound) { return execute(planned, bound, nullptr); };
  EXPECT_EQ(status({{1, x.address}}), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_THAT(last_refusal(), HasSubstr("tensor 2 [1, 4, 1, 1] is not bound"));
  EXPECT_EQ(status({{1, x.address}, {2, small.address}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_THAT(last_refusal(), HasSubstr("reaches 4 bytes beyond its allocation"));
  EXPECT_EQ(status({{1, x.address}, {2, host}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(status({{1, x.data() + 1}, {2, y.address}}), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  EXPECT_EQ(status({{1, x.address}, {2, y.address}, {3, y.address}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_CUDA(cudaSetDevice(1));
  const DeviceArray<float> elsewhere(4);
  EXPECT_EQ(status({{1, x.address}, {2, elsewhere.address}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_CUDA(cudaSetDevice(0));
  EXPECT_CUDNN(status({{1, x.address}, {2, y.address}}));
  EXPECT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_THAT(y.values(), ElementsAre(2, 4, 6, 8));
}

TEST_F(Cudnn, IsCapturedIntoGraphs) {
  const Desc planned = fallback_plan();
  const DeviceArray<float> x(std::vector<float>{1, 2, 3, 4});
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  EXPECT_CUDNN(execute(planned, {{1, x.address}, {2, x.address}}, nullptr));
  EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph));
  EXPECT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_THAT(x.values(), ElementsAre(4, 8, 12, 16));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

TEST_F(Cudnn, KeepsHandlesToTheirDeviceAndFailsWhenTold) {
  EXPECT_CUDA(cudaSetDevice(1));
  {
    const Stream elsewhere;
    EXPECT_EQ(cudnnSetStream(handle_, elsewhere), CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
  }
  EXPECT_CUDA(cudaSetDevice(0));
  fail("cudnnBackendExecute", 1, CUDNN_STATUS_EXECUTION_FAILED);
  const Desc planned = fallback_plan();
  const DeviceArray<float> x(4);
  EXPECT_EQ(execute(planned, {{1, x.address}, {2, x.address}}, nullptr), CUDNN_STATUS_EXECUTION_FAILED);
  EXPECT_STREQ(cudnnGetErrorString(CUDNN_STATUS_EXECUTION_FAILED), "CUDNN_STATUS_EXECUTION_FAILED");
}

TEST(CudnnWithoutDevices, HasNoHandles) {
  reset({.driver = false});
  cudnnHandle_t handle = nullptr;
  EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cudnnGetVersion(), static_cast<std::size_t>(CUDNN_VERSION));
  reset();
}

}  // namespace
}  // namespace cuda_double
