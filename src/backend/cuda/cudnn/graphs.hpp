#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "backend/cuda/cudnn/descriptor.hpp"
#include "kernels/cuda/element.hpp"

// The operation graphs that training needs, as cuDNN 9 backend descriptors.
//
// Layouts: activations are [n, c, h, w] with the strides of NHWC, channels closest. Convolution weights are
// [k, c, r, s] with the strides of KRSC. Dense weights are [out, in], inputs closest: a dense layer is a
// 1 x 1 convolution over one pixel. Biases, and what batch norm has of a channel, are [1, c, 1, 1]. Tensors
// are packed and aligned to 16 bytes. They are of the graph's Element, biases too; batch norm's vectors are
// fp32. All arithmetic is fp32.
//
// Left to kernels of our own, because cuDNN 9.19 does not do it or does not say how:
//   bias gradients         its sums over a batch have no fixed order, and the ones that should do not compile
//   running statistics     whether the variance is the unbiased one is not documented
//   batch norm inference   no engine takes the operation by itself
//   fp32 weight gradients  not from 16-bit tensors: they come in the graph's Element
//
// Descriptors and attributes used; an interpreter needs no others:
//   TENSOR           UNIQUE_ID, DATA_TYPE (FLOAT, BFLOAT16, HALF, and INT8 for a pooling index), DIMENSIONS,
//                    STRIDES, BYTE_ALIGNMENT, IS_VIRTUAL (FLOAT, between operations of one graph),
//                    IS_BY_VALUE (FLOAT, one number; its pointer in the variant pack is the host's)
//   CONVOLUTION      COMP_TYPE, CONV_MODE (CROSS_CORRELATION), SPATIAL_DIMS (2), PRE_PADDINGS,
//                    POST_PADDINGS, FILTER_STRIDES (1, 1), DILATIONS (1, 1)
//   OPERATION_CONVOLUTION_FORWARD          X, W, Y, CONV_DESC, ALPHA, BETA (double 1, 0)
//   OPERATION_CONVOLUTION_BACKWARD_DATA    DX, W, DY, CONV_DESC, ALPHA, BETA
//   OPERATION_CONVOLUTION_BACKWARD_FILTER  X, DW, DY, CONV_DESC, ALPHA, BETA
//   POINTWISE        MODE (ADD, RELU_FWD), MATH_PREC
//   OPERATION_POINTWISE                    PW_DESCRIPTOR, XDESC, BDESC (ADD: the bias, broadcast), YDESC
//   RESAMPLE         MODE (MAXPOOL), COMP_TYPE, PADDING_MODE (NEG_INF_PAD), SPATIAL_DIMS (2), WINDOW_DIMS,
//                    STRIDES, PRE_PADDINGS, POST_PADDINGS (fractions; no padding)
//   OPERATION_RESAMPLE_FWD                 DESC, XDESC, YDESC, IDXDESC (with an index)
//   OPERATION_RESAMPLE_BWD                 DESC, DXDESC, DYDESC, IDXDESC
//   OPERATION_NORM_FORWARD                 MODE (BATCH_NORM), PHASE (TRAINING), XDESC, SCALE_DESC,
//                    BIAS_DESC, EPSILON_DESC, MEAN_DESC, INV_VARIANCE_DESC (saved), YDESC
//   OPERATION_NORM_BACKWARD                MODE (BATCH_NORM), XDESC, MEAN_DESC, INV_VARIANCE_DESC, DYDESC,
//                    SCALE_DESC, DSCALE_DESC, DBIAS_DESC, DXDESC
//   OPERATIONGRAPH   OPS, HANDLE (where there is one)
//   ENGINEHEUR       OPERATION_GRAPH, MODE (A, FALLBACK), RESULTS, DEVICEPROP (without a handle)
//   ENGINECFG        ENGINE, KNOB_CHOICES
//   ENGINE           GLOBAL_INDEX, NUMERICAL_NOTE, BEHAVIOR_NOTE
//   KNOB_CHOICE      KNOB_TYPE, KNOB_VALUE
//   EXECUTION_PLAN   ENGINE_CONFIG, HANDLE or DEVICEPROP, WORKSPACE_SIZE
//   VARIANT_PACK     UNIQUE_IDS, DATA_POINTERS, WORKSPACE
namespace dtrain::backend::cuda {

using kernels::cuda::Element;

// What a tensor is to its operation; its number is the tensor's unique id in every graph.
enum class Role : std::int64_t {
  x = 1,
  w,
  bias,
  y,
  dx,
  dw,
  dy,
  index,  // of the largest element within its pooling window, int8
  gamma,
  beta,
  mean,               // of the batch
  inverse_deviation,  // of the batch: 1 / sqrt(biased variance + epsilon)
  dgamma,
  dbeta,
  epsilon,
};

std::string name(Role role);

struct ConvolutionShape {  // square kernel, stride 1
  int batch = 0;
  int in_channels = 0;
  int in_height = 0;
  int in_width = 0;
  int out_channels = 0;
  int kernel = 3;
  int padding = 0;
  int out_height() const { return in_height + 2 * padding - kernel + 1; }
  int out_width() const { return in_width + 2 * padding - kernel + 1; }
};

struct ActivationShape {
  int batch = 0;
  int channels = 0;
  int height = 1;
  int width = 1;
};

struct DenseShape {
  int batch = 0;
  int inputs = 0;
  int outputs = 0;
};

// Each of the following describes one graph; the comment names the tensors in and out.

struct ConvolutionForward {  // x, w, [bias] -> y = [relu](x * w [+ bias])
  ConvolutionShape shape;
  Element element = Element::f32;
  bool bias = false;
  bool relu = false;
};
struct ConvolutionDataGradient {  // w, dy -> dx
  ConvolutionShape shape;
  Element element = Element::f32;
};
struct ConvolutionWeightGradient {  // x, dy -> dw, in the graph's element
  ConvolutionShape shape;
  Element element = Element::f32;
};

struct DenseForward {  // x, w, [bias] -> y = [relu](x w^T [+ bias])
  DenseShape shape;
  Element element = Element::f32;
  bool bias = false;
  bool relu = false;
};
struct DenseDataGradient {  // w, dy -> dx = dy w
  DenseShape shape;
  Element element = Element::f32;
};
struct DenseWeightGradient {  // x, dy -> dw = dy^T x, in the graph's element
  DenseShape shape;
  Element element = Element::f32;
};

// In training: x, gamma, beta, epsilon -> y = [relu](gamma (x - mean) inverse_deviation + beta), mean,
// inverse_deviation.
struct BatchNormForward {
  ActivationShape shape;
  Element element = Element::f32;
  bool relu = false;
  float epsilon = 1e-5F;
};
struct BatchNormBackward {  // x, dy, gamma, mean, inverse_deviation -> dx, dgamma, dbeta
  ActivationShape shape;
  Element element = Element::f32;
};

struct MaxPoolForward {   // x -> y, [index]; window = stride = size, incomplete windows dropped
  ActivationShape shape;  // of x
  int size = 2;
  Element element = Element::f32;
  bool index = false;
};
// dy, index -> dx. Clear dx beforehand where a window is incomplete: cuDNN does not promise to write there.
struct MaxPoolBackward {
  ActivationShape shape;  // of x
  int size = 2;
  Element element = Element::f32;
};

using GraphSpec = std::variant<ConvolutionForward, ConvolutionDataGradient, ConvolutionWeightGradient,
                               DenseForward, DenseDataGradient, DenseWeightGradient, BatchNormForward,
                               BatchNormBackward, MaxPoolForward, MaxPoolBackward>;

// What a graph is, in one line: operation, shapes, element, fusion. Equal for equal graphs and for no others.
std::string signature(const GraphSpec& spec);

inline constexpr int alignment_bytes = 16;  // of every tensor

struct TensorUse {
  Role role = Role::x;
  std::size_t bytes = 0;
};

struct HostScalar {
  Role role = Role::epsilon;
  float value = 0.0F;
};

// A finalised graph. Copies share the descriptors, and whatever is planned from it keeps them alive.
struct OperationGraph {
  std::string signature;
  Element element = Element::f32;
  bool products = true;             // multiplies elements, so that tensor cores would round them
  std::vector<TensorUse> tensors;   // to be bound at execution
  std::vector<HostScalar> scalars;  // bound by the plan itself
  std::vector<std::shared_ptr<const Descriptor>> parts;
  std::shared_ptr<const Descriptor> descriptor;
};

// Without a handle (nullptr) the graph can be planned for a described device and not be executed.
// A graph that cuDNN refuses as malformed is a run error.
OperationGraph build_graph(const GraphSpec& spec, cudnnHandle_t handle = nullptr);

}  // namespace dtrain::backend::cuda
