#include "tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "dense.hpp"

namespace cuda_double {
namespace {

// Calls each(offset in memory, offset in the dense array, run) for runs of elements that are contiguous in
// both.
template <class Each>
void by_runs(const TensorSpec& tensor, Each each) {
  const std::vector<std::int64_t> dims = tensor.ordered_dims();
  std::vector<std::int64_t> strides;
  for (const int axis : tensor.order()) strides.push_back(tensor.strides[static_cast<std::size_t>(axis)]);
  std::int64_t run = 1;
  std::size_t outer = dims.size();
  while (outer > 0 && (strides[outer - 1] == run || dims[outer - 1] == 1)) run *= dims[--outer];
  const auto total = static_cast<std::int64_t>(tensor.elements());
  std::vector<std::int64_t> position(outer, 0);
  for (std::int64_t done = 0; done < total; done += run) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < outer; ++axis) offset += position[axis] * strides[axis];
    each(static_cast<std::size_t>(offset), static_cast<std::size_t>(done), static_cast<std::size_t>(run));
    for (std::size_t axis = outer; axis-- > 0;) {
      if (++position[axis] < dims[axis]) break;
      position[axis] = 0;
    }
  }
}

}  // namespace

std::size_t TensorSpec::elements() const {
  std::size_t product = 1;
  for (const std::int64_t dim : dims) product *= static_cast<std::size_t>(dim);
  return product;
}

std::size_t TensorSpec::element_bytes() const {
  switch (type) {
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8:
      return 1;
    default:
      throw Refusal{CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                    fmt::format("the double does not model data type {}", static_cast<int>(type))};
  }
}

std::size_t TensorSpec::bytes_spanned() const {
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) last += (dims[axis] - 1) * strides[axis];
  return static_cast<std::size_t>(last + 1) * element_bytes();
}

std::vector<int> TensorSpec::order() const {
  if (dims.size() == 4) return {0, 2, 3, 1};
  std::vector<int> axes;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) axes.push_back(static_cast<int>(axis));
  return axes;
}

std::vector<std::int64_t> TensorSpec::ordered_dims() const {
  std::vector<std::int64_t> ordered;
  for (const int axis : order()) ordered.push_back(dims[static_cast<std::size_t>(axis)]);
  return ordered;
}

TensorSpec tensor_of(const Content& tensor) {
  const auto dims = tensor.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = tensor.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  return {tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          tensor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE),
          {dims.begin(), dims.end()},
          {strides.begin(), strides.end()},
          tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
          tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL),
          tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)};
}

TensorSpec tensor_of(const Content& operation, cudnnBackendAttributeName_t name) {
  return tensor_of(operation.descriptor(name));
}

std::string shape_of(const TensorSpec& tensor) {
  return fmt::format("tensor {} [{}]", tensor.uid, fmt::join(tensor.dims, ", "));
}

Values Frame::load(const TensorSpec& tensor) const {
  if (tensor.by_value) return {scalars.at(tensor.uid)};
  if (tensor.is_virtual) return intermediate_.at(tensor.uid);
  const std::size_t size = tensor.element_bytes();
  const auto* start = static_cast<const std::byte*>(memory.at(tensor.uid));
  std::vector<std::byte> raw(tensor.elements() * size);
  by_runs(tensor, [&](std::size_t offset, std::size_t dense, std::size_t run) {
    std::memcpy(raw.data() + dense * size, start + offset * size, run * size);
  });
  Values values(tensor.elements());
  dense::to_float(tensor.type, raw.data(), values.size(), values.data());
  return values;
}

Values Frame::load_factor(const TensorSpec& tensor) const {
  Values values = load(tensor);
  if (tensor_cores && tensor.type == CUDNN_DATA_FLOAT) dense::round_to_tf32(values.data(), values.size());
  return values;
}

void Frame::store(const TensorSpec& tensor, const Values& values) {
  const std::size_t size = tensor.element_bytes();
  std::vector<std::byte> raw(values.size() * size);
  dense::from_float(tensor.type, values.data(), values.size(), raw.data());
  if (tensor.is_virtual) {
    Values& kept = intermediate_[tensor.uid];
    kept.resize(values.size());
    dense::to_float(tensor.type, raw.data(), values.size(), kept.data());
    return;
  }
  auto* start = static_cast<std::byte*>(memory.at(tensor.uid));
  by_runs(tensor, [&](std::size_t offset, std::size_t dense, std::size_t run) {
    std::memcpy(start + offset * size, raw.data() + dense * size, run * size);
  });
}

}  // namespace cuda_double
