#pragma once

#include <cudnn.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/check.hpp"

namespace dtrain::backend::cuda {

// The type code under which cuDNN takes an attribute of this C++ type.
template <class T>
inline constexpr auto attribute_type = std::nullptr_t{};  // no such attribute
template <>
inline constexpr auto attribute_type<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr auto attribute_type<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto attribute_type<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto attribute_type<std::int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto attribute_type<double> = CUDNN_TYPE_DOUBLE;
template <>
inline constexpr auto attribute_type<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr auto attribute_type<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto attribute_type<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto attribute_type<cudnnBackendKnobType_t> = CUDNN_TYPE_KNOB_TYPE;
template <>
inline constexpr auto attribute_type<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;
template <>
inline constexpr auto attribute_type<cudnnBackendBehaviorNote_t> = CUDNN_TYPE_BEHAVIOR_NOTE;
template <>
inline constexpr auto attribute_type<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto attribute_type<cudnnResampleMode_t> = CUDNN_TYPE_RESAMPLE_MODE;
template <>
inline constexpr auto attribute_type<cudnnPaddingMode_t> = CUDNN_TYPE_PADDING_MODE;
template <>
inline constexpr auto attribute_type<cudnnFraction_t> = CUDNN_TYPE_FRACTION;
template <>
inline constexpr auto attribute_type<cudnnBackendNormMode_t> = CUDNN_TYPE_NORM_MODE;
template <>
inline constexpr auto attribute_type<cudnnBackendNormFwdPhase_t> = CUDNN_TYPE_NORM_FWD_PHASE;
template <>
inline constexpr auto attribute_type<char> = CUDNN_TYPE_CHAR;

// One descriptor of cuDNN's backend API. Attributes are set, then `finalize` checks them together; only a
// final one can be read or used by others. cuDNN's refusals are errors that name the call, unless asked for
// by `try_`.
class Descriptor {
 public:
  using Name = cudnnBackendAttributeName_t;

  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  template <class T>
  Descriptor& set(Name name, std::span<const T> values) {
    return set_raw(name, attribute_type<T>, static_cast<std::int64_t>(values.size()), values.data());
  }
  template <class T>
  Descriptor& set(Name name, const std::vector<T>& values) {
    return set(name, std::span<const T>(values));
  }
  template <class T>
  Descriptor& set(Name name, const T& value) {
    return set(name, std::span<const T>(&value, 1));
  }
  Descriptor& set(Name name, const Descriptor& value);
  Descriptor& set(Name name, std::span<const Descriptor> values);

  Descriptor& finalize();
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(raw_); }

  template <class T>
  std::vector<T> get(Name name) const {
    std::vector<T> values(static_cast<std::size_t>(count(name, attribute_type<T>)));
    const auto got =
        get_raw(name, attribute_type<T>, static_cast<std::int64_t>(values.size()), values.data());
    values.resize(static_cast<std::size_t>(got));
    return values;
  }
  template <class T>
  T get_one(Name name) const {
    T value{};
    get_raw(name, attribute_type<T>, 1, &value);
    return value;
  }
  // cuDNN fills descriptors that the caller has made: as many as there are, or the first `most` where cuDNN
  // does not tell their number beforehand.
  std::vector<Descriptor> get_descriptors(Name name, cudnnBackendDescriptorType_t type) const;
  std::vector<Descriptor> get_descriptors(Name name, cudnnBackendDescriptorType_t type,
                                          std::int64_t most) const;

  cudnnBackendDescriptor_t raw() const { return raw_; }

 private:
  Descriptor& set_raw(Name name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  std::int64_t count(Name name, cudnnBackendAttributeType_t type) const;
  std::int64_t get_raw(Name name, cudnnBackendAttributeType_t type, std::int64_t count, void* values) const;

  cudnnBackendDescriptor_t raw_ = nullptr;
};

// What cuDNN says about its last failure on this thread; "" where it says nothing.
std::string last_cudnn_message();

}  // namespace dtrain::backend::cuda
