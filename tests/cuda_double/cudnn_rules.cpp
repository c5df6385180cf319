#include "cudnn_descriptor.hpp"

// The attributes that the double knows, by type of descriptor. Others are refused.
namespace cuda_double {
namespace {

constexpr bool optional = false;
constexpr std::int64_t many = 1 << 20;
constexpr int dims = CUDNN_DIM_MAX;

constexpr Rule tensor(cudnnBackendAttributeName_t name, const char* meaning, bool required = true) {
  return {name, meaning, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, required, CUDNN_BACKEND_TENSOR_DESCRIPTOR};
}

constexpr Rule part(cudnnBackendAttributeName_t name, const char* meaning,
                    cudnnBackendDescriptorType_t type) {
  return {name, meaning, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, true, type};
}

constexpr Rule tensor_rules[] = {
    {CUDNN_ATTR_TENSOR_UNIQUE_ID, "unique id", CUDNN_TYPE_INT64, 1, 1},
    {CUDNN_ATTR_TENSOR_DATA_TYPE, "data type", CUDNN_TYPE_DATA_TYPE, 1, 1},
    {CUDNN_ATTR_TENSOR_DIMENSIONS, "dimensions", CUDNN_TYPE_INT64, 1, dims},
    {CUDNN_ATTR_TENSOR_STRIDES, "strides", CUDNN_TYPE_INT64, 1, dims},
    {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, "byte alignment", CUDNN_TYPE_INT64, 1, 1},
    {CUDNN_ATTR_TENSOR_IS_VIRTUAL, "is virtual", CUDNN_TYPE_BOOLEAN, 1, 1, optional},
    {CUDNN_ATTR_TENSOR_IS_BY_VALUE, "is by value", CUDNN_TYPE_BOOLEAN, 1, 1, optional},
};
constexpr Rule convolution_rules[] = {
    {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, "compute type", CUDNN_TYPE_DATA_TYPE, 1, 1},
    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, "mode", CUDNN_TYPE_CONVOLUTION_MODE, 1, 1},
    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, "spatial dimensions", CUDNN_TYPE_INT64, 1, 1},
    {CUDNN_ATTR_CONVOLUTION_DILATIONS, "dilations", CUDNN_TYPE_INT64, 1, dims},
    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, "filter strides", CUDNN_TYPE_INT64, 1, dims},
    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, "pre-paddings", CUDNN_TYPE_INT64, 1, dims},
    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, "post-paddings", CUDNN_TYPE_INT64, 1, dims},
};
constexpr Rule forward_rules[] = {
    part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, "convolution",
         CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
    tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, "x"),
    tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, "w"),
    tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, "y"),
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, "alpha", CUDNN_TYPE_DOUBLE, 1, 1},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, "beta", CUDNN_TYPE_DOUBLE, 1, 1},
};
constexpr Rule data_gradient_rules[] = {
    part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, "convolution",
         CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
    tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, "dx"),
    tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, "w"),
    tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, "dy"),
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, "alpha", CUDNN_TYPE_DOUBLE, 1, 1},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, "beta", CUDNN_TYPE_DOUBLE, 1, 1},
};
constexpr Rule weight_gradient_rules[] = {
    part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, "convolution",
         CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
    tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, "x"),
    tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, "dw"),
    tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, "dy"),
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, "alpha", CUDNN_TYPE_DOUBLE, 1, 1},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, "beta", CUDNN_TYPE_DOUBLE, 1, 1},
};
constexpr Rule pointwise_rules[] = {
    {CUDNN_ATTR_POINTWISE_MODE, "mode", CUDNN_TYPE_POINTWISE_MODE, 1, 1},
    {CUDNN_ATTR_POINTWISE_MATH_PREC, "math precision", CUDNN_TYPE_DATA_TYPE, 1, 1},
    {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, "NaN propagation", CUDNN_TYPE_NAN_PROPOGATION, 1, 1, optional},
    {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, "lower clip", CUDNN_TYPE_DOUBLE, 1, 1, optional},
    {CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, "upper clip", CUDNN_TYPE_DOUBLE, 1, 1, optional},
    {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, "lower clip slope", CUDNN_TYPE_DOUBLE, 1, 1, optional},
};
constexpr Rule pointwise_operation_rules[] = {
    part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, "pointwise", CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
    tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, "x", optional),
    tensor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, "b", optional),
    tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, "y", optional),
    tensor(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, "dx", optional),
    tensor(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, "dy", optional),
    {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, "alpha1", CUDNN_TYPE_DOUBLE, 1, 1, optional},
    {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, "alpha2", CUDNN_TYPE_DOUBLE, 1, 1, optional},
};
constexpr Rule matmul_rules[] = {
    {CUDNN_ATTR_MATMUL_COMP_TYPE, "compute type", CUDNN_TYPE_DATA_TYPE, 1, 1},
};
constexpr Rule matmul_operation_rules[] = {
    part(CUDNN_ATTR_OPERATION_MATMUL_DESC, "matmul", CUDNN_BACKEND_MATMUL_DESCRIPTOR),
    tensor(CUDNN_ATTR_OPERATION_MATMUL_ADESC, "a"),
    tensor(CUDNN_ATTR_OPERATION_MATMUL_BDESC, "b"),
    tensor(CUDNN_ATTR_OPERATION_MATMUL_CDESC, "c"),
};
constexpr Rule reduction_rules[] = {
    {CUDNN_ATTR_REDUCTION_OPERATOR, "operator", CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, 1},
    {CUDNN_ATTR_REDUCTION_COMP_TYPE, "compute type", CUDNN_TYPE_DATA_TYPE, 1, 1},
    {CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, "is deterministic", CUDNN_TYPE_BOOLEAN, 1, 1, optional},
};
constexpr Rule reduction_operation_rules[] = {
    part(CUDNN_ATTR_OPERATION_REDUCTION_DESC, "reduction", CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
    tensor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, "x"),
    tensor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, "y"),
};
constexpr Rule resample_rules[] = {
    {CUDNN_ATTR_RESAMPLE_MODE, "mode", CUDNN_TYPE_RESAMPLE_MODE, 1, 1},
    {CUDNN_ATTR_RESAMPLE_COMP_TYPE, "compute type", CUDNN_TYPE_DATA_TYPE, 1, 1},
    {CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, "spatial dimensions", CUDNN_TYPE_INT64, 1, 1},
    {CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, "window", CUDNN_TYPE_FRACTION, 1, dims},
    {CUDNN_ATTR_RESAMPLE_STRIDES, "strides", CUDNN_TYPE_FRACTION, 1, dims},
    {CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, "pre-paddings", CUDNN_TYPE_FRACTION, 1, dims},
    {CUDNN_ATTR_RESAMPLE_POST_PADDINGS, "post-paddings", CUDNN_TYPE_FRACTION, 1, dims},
    {CUDNN_ATTR_RESAMPLE_PADDING_MODE, "padding mode", CUDNN_TYPE_PADDING_MODE, 1, 1},
    {CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, "NaN propagation", CUDNN_TYPE_NAN_PROPOGATION, 1, 1, optional},
};
constexpr Rule resample_forward_rules[] = {
    part(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, "resample", CUDNN_BACKEND_RESAMPLE_DESCRIPTOR),
    tensor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, "x"),
    tensor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, "y"),
    tensor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, "index", optional),
    {CUDNN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA, "alpha", CUDNN_TYPE_DOUBLE, 1, 1, optional},
    {CUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA, "beta", CUDNN_TYPE_DOUBLE, 1, 1, optional},
};
constexpr Rule resample_backward_rules[] = {
    part(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, "resample", CUDNN_BACKEND_RESAMPLE_DESCRIPTOR),
    tensor(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, "dx"),
    tensor(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, "dy"),
    tensor(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, "index", optional),
    {CUDNN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA, "alpha", CUDNN_TYPE_DOUBLE, 1, 1, optional},
    {CUDNN_ATTR_OPERATION_RESAMPLE_BWD_BETA, "beta", CUDNN_TYPE_DOUBLE, 1, 1, optional},
};
constexpr Rule norm_forward_rules[] = {
    {CUDNN_ATTR_OPERATION_NORM_FWD_MODE, "mode", CUDNN_TYPE_NORM_MODE, 1, 1},
    {CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, "phase", CUDNN_TYPE_NORM_FWD_PHASE, 1, 1},
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, "x"),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, "scale"),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, "bias"),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, "y"),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, "mean", optional),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, "inverse deviation", optional),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, "epsilon", optional),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, "exponential average factor", optional),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, "running mean", optional),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, "running variance", optional),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, "next running mean", optional),
    tensor(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, "next running variance", optional),
};
constexpr Rule norm_backward_rules[] = {
    {CUDNN_ATTR_OPERATION_NORM_BWD_MODE, "mode", CUDNN_TYPE_NORM_MODE, 1, 1},
    tensor(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, "x"),
    tensor(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, "mean"),
    tensor(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, "inverse deviation"),
    tensor(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, "dy"),
    tensor(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, "scale"),
    tensor(CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC, "epsilon", optional),
    tensor(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, "dscale"),
    tensor(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, "dbias"),
    tensor(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, "dx"),
};
constexpr Rule graph_rules[] = {
    {CUDNN_ATTR_OPERATIONGRAPH_OPS, "operations", CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, many},
    {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, "handle", CUDNN_TYPE_HANDLE, 1, 1, optional},
    {CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, "engines", CUDNN_TYPE_INT64, 1, 1, optional, -1, false},
};
constexpr Rule heuristics_rules[] = {
    part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, "operation graph", CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
    {CUDNN_ATTR_ENGINEHEUR_MODE, "mode", CUDNN_TYPE_HEUR_MODE, 1, 1},
    {CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, "device properties", CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, optional,
     CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
    {CUDNN_ATTR_ENGINEHEUR_RESULTS, "results", CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, many, optional,
     CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, false},
};
constexpr Rule engine_rules[] = {
    part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, "operation graph", CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
    {CUDNN_ATTR_ENGINE_GLOBAL_INDEX, "global index", CUDNN_TYPE_INT64, 1, 1},
    {CUDNN_ATTR_ENGINE_DEVICEPROP, "device properties", CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, optional,
     CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
    {CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, "numerical notes", CUDNN_TYPE_NUMERICAL_NOTE, 0, many, optional, -1,
     false},
    {CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, "behaviour notes", CUDNN_TYPE_BEHAVIOR_NOTE, 0, many, optional, -1,
     false},
    {CUDNN_ATTR_ENGINE_KNOB_INFO, "knobs", CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, many, optional,
     CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, false},
};
constexpr Rule configuration_rules[] = {
    part(CUDNN_ATTR_ENGINECFG_ENGINE, "engine", CUDNN_BACKEND_ENGINE_DESCRIPTOR),
    {CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, "knob choices", CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, many, optional,
     CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR},
    {CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, "workspace size", CUDNN_TYPE_INT64, 1, 1, optional, -1, false},
};
constexpr Rule knob_choice_rules[] = {
    {CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, "knob", CUDNN_TYPE_KNOB_TYPE, 1, 1},
    {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, "value", CUDNN_TYPE_INT64, 1, 1},
};
constexpr Rule knob_info_rules[] = {
    {CUDNN_ATTR_KNOB_INFO_TYPE, "knob", CUDNN_TYPE_KNOB_TYPE, 1, 1, optional, -1, false},
    {CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, "maximum", CUDNN_TYPE_INT64, 1, 1, optional, -1, false},
    {CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, "minimum", CUDNN_TYPE_INT64, 1, 1, optional, -1, false},
    {CUDNN_ATTR_KNOB_INFO_STRIDE, "stride", CUDNN_TYPE_INT64, 1, 1, optional, -1, false},
};
constexpr Rule plan_rules[] = {
    part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, "engine configuration", CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
    {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, "handle", CUDNN_TYPE_HANDLE, 1, 1, optional},
    {CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, "device properties", CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, optional,
     CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
    {CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, "workspace size", CUDNN_TYPE_INT64, 1, 1, optional, -1, false},
};
constexpr Rule pack_rules[] = {
    {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, "unique ids", CUDNN_TYPE_INT64, 1, many},
    {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, "data pointers", CUDNN_TYPE_VOID_PTR, 1, many},
    {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, "workspace", CUDNN_TYPE_VOID_PTR, 1, 1, optional},
};
constexpr Rule properties_rules[] = {
    {CUDNN_ATTR_DEVICEPROP_DEVICE_ID, "device", CUDNN_TYPE_INT32, 1, 1, optional},
    {CUDNN_ATTR_DEVICEPROP_HANDLE, "handle", CUDNN_TYPE_HANDLE, 1, 1, optional},
    {CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, "JSON", CUDNN_TYPE_CHAR, 1, many, optional},
};

struct Type {
  cudnnBackendDescriptorType_t type;
  const char* name;
  std::span<const Rule> rules;
};

const Type types[] = {
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor", tensor_rules},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "convolution", convolution_rules},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "convolution forward", forward_rules},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, "convolution data gradient",
     data_gradient_rules},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, "convolution weight gradient",
     weight_gradient_rules},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise", pointwise_rules},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise operation", pointwise_operation_rules},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, "matmul", matmul_rules},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "matmul operation", matmul_operation_rules},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "reduction", reduction_rules},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "reduction operation", reduction_operation_rules},
    {CUDNN_BACKEND_RESAMPLE_DESCRIPTOR, "resample", resample_rules},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, "resample forward", resample_forward_rules},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, "resample backward", resample_backward_rules},
    {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, "norm forward", norm_forward_rules},
    {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, "norm backward", norm_backward_rules},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "operation graph", graph_rules},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristics", heuristics_rules},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, "engine", engine_rules},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "engine configuration", configuration_rules},
    {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, "knob choice", knob_choice_rules},
    {CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, "knob info", knob_info_rules},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "execution plan", plan_rules},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "variant pack", pack_rules},
    {CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "device properties", properties_rules},
};

}  // namespace

std::span<const Rule> rules_of(cudnnBackendDescriptorType_t type) {
  for (const Type& known : types) {
    if (known.type == type) return known.rules;
  }
  return {};
}

const char* name_of(cudnnBackendDescriptorType_t type) {
  for (const Type& known : types) {
    if (known.type == type) return known.name;
  }
  return "unknown descriptor";
}

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_FRACTION:
      return sizeof(cudnnFraction_t);
    default:
      return 4;
  }
}

}  // namespace cuda_double
