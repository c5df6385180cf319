#include <fmt/format.h>

#include <bit>

#include "cudnn_descriptor.hpp"
#include "program.hpp"

namespace cuda_double {
namespace {

void require(bool good, cudnnStatus_t status, const std::string& otherwise) {
  if (!good) throw Refusal{status, otherwise};
}

void finalize_tensor(const Content& content) {
  const TensorSpec tensor = tensor_of(content);
  require(tensor.dims.size() == tensor.strides.size(), CUDNN_STATUS_BAD_PARAM,
          shape_of(tensor) + " has another number of strides");
  for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    require(tensor.dims[axis] > 0 && tensor.strides[axis] > 0, CUDNN_STATUS_BAD_PARAM,
            shape_of(tensor) + " has a dimension or stride that is not positive");
  }
  require(tensor.alignment > 0 && std::has_single_bit(static_cast<std::uint64_t>(tensor.alignment)) &&
              tensor.alignment % static_cast<std::int64_t>(tensor.element_bytes()) == 0,
          CUDNN_STATUS_BAD_PARAM, shape_of(tensor) + " has an alignment that its elements cannot have");
  require(!(tensor.is_virtual && tensor.by_value), CUDNN_STATUS_BAD_PARAM,
          shape_of(tensor) + " is virtual and by value");
  require(!tensor.by_value || (tensor.elements() == 1 && tensor.type == CUDNN_DATA_FLOAT),
          CUDNN_STATUS_NOT_SUPPORTED, shape_of(tensor) + ": by value the double models one fp32 number");
}

void finalize_convolution(const Content& content) {
  require_float_arithmetic(content, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  require(content.value<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION,
          CUDNN_STATUS_NOT_SUPPORTED, "the double models cross-correlation only");
  require(content.value<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2, CUDNN_STATUS_NOT_SUPPORTED,
          "the double convolves over two dimensions");
  for (const auto name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                          CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}) {
    const auto values = content.values<std::int64_t>(name);
    const bool padding =
        name == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS || name == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS;
    require(values.size() == 2 && std::min(values[0], values[1]) >= (padding ? 0 : 1), CUDNN_STATUS_BAD_PARAM,
            fmt::format("attribute {} of a convolution is not two sizes", static_cast<int>(name)));
  }
}

void finalize_resample(const Content& content) {
  require_float_arithmetic(content, CUDNN_ATTR_RESAMPLE_COMP_TYPE);
  require(content.value<std::int64_t>(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS) == 2, CUDNN_STATUS_NOT_SUPPORTED,
          "the double pools over two dimensions");
}

void finalize_pack(const Content& content) {
  const auto uids = content.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = content.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  require(uids.size() == pointers.size(), CUDNN_STATUS_BAD_PARAM,
          fmt::format("a variant pack has {} unique ids and {} pointers", uids.size(), pointers.size()));
  for (std::size_t i = 0; i < uids.size(); ++i) {
    require(std::count(uids.begin(), uids.end(), uids[i]) == 1, CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
            fmt::format("tensor {} is bound twice", uids[i]));
    require(pointers[i] != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
            fmt::format("tensor {} is bound to nothing", uids[i]));
  }
}

}  // namespace

void finalize(Content& content) {
  switch (content.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return finalize_tensor(content);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return finalize_convolution(content);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return require_float_arithmetic(content, CUDNN_ATTR_POINTWISE_MATH_PREC);
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
      return require_float_arithmetic(content, CUDNN_ATTR_MATMUL_COMP_TYPE);
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
      return require_float_arithmetic(content, CUDNN_ATTR_REDUCTION_COMP_TYPE);
    case CUDNN_BACKEND_RESAMPLE_DESCRIPTOR:
      return finalize_resample(content);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      content.program = compile(content);
      content.put(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64,
                  std::vector<std::int64_t>{4});
      return;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      return finalize_engine(content);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      return finalize_configuration(content);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return finalize_heuristics(content);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return finalize_plan(content);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return finalize_pack(content);
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
      return;
    case CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR:
      throw Refusal{CUDNN_STATUS_BAD_PARAM, "a knob info is handed out by an engine"};
    default:
      (void)step_of(content);  // an operation
  }
}

}  // namespace cuda_double
