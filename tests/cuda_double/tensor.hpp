#pragma once

#include <map>
#include <string>
#include <vector>

#include "cudnn_descriptor.hpp"

namespace cuda_double {

struct TensorSpec {
  std::int64_t uid = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> strides;
  std::int64_t alignment = 1;
  bool is_virtual = false;
  bool by_value = false;

  std::size_t elements() const;
  std::size_t element_bytes() const;
  std::size_t bytes_spanned() const;  // from the first element to the last
  bool operator==(const TensorSpec&) const = default;

  // The order in which values are computed with: images, height, width, channels; as they are where there are
  // not four dimensions.
  std::vector<int> order() const;
  std::vector<std::int64_t> ordered_dims() const;
};

TensorSpec tensor_of(const Content& tensor);
TensorSpec tensor_of(const Content& operation, cudnnBackendAttributeName_t name);
std::string shape_of(const TensorSpec& tensor);

using Values = std::vector<float>;

// One execution of a program: where tensors lie, and what was computed between operations.
class Frame {
 public:
  std::map<std::int64_t, void*> memory;   // device tensors
  std::map<std::int64_t, float> scalars;  // tensors by value
  bool tensor_cores = false;              // fp32 products take inputs rounded to TF32

  Values load(const TensorSpec& tensor) const;  // dense, in the tensor's order
  void store(const TensorSpec& tensor, const Values& values);
  float scalar(const TensorSpec& tensor) const { return load(tensor).at(0); }
  Values load_factor(const TensorSpec& tensor) const;  // of a product

 private:
  std::map<std::int64_t, Values> intermediate_;
};

}  // namespace cuda_double
