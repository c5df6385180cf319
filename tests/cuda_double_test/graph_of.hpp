#pragma once

#include <span>

#include "support.hpp"

namespace cuda_double {

#define EXPECT_CUDNN(call) EXPECT_EQ(call, CUDNN_STATUS_SUCCESS) << last_refusal()

using Dims = std::vector<std::int64_t>;

// A backend descriptor, built up call by call.
class Desc {
 public:
  explicit Desc(cudnnBackendDescriptorType_t type) {
    EXPECT_CUDNN(cudnnBackendCreateDescriptor(type, &raw_));
  }
  Desc(Desc&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Desc& operator=(Desc&&) = delete;
  ~Desc() {
    if (raw_ != nullptr) {
      EXPECT_CUDNN(cudnnBackendDestroyDescriptor(raw_));
    }
  }
  template <class T>
  Desc& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
            const std::vector<T>& values) {
    EXPECT_CUDNN(
        cudnnBackendSetAttribute(raw_, name, type, static_cast<std::int64_t>(values.size()), values.data()));
    return *this;
  }
  Desc& set(cudnnBackendAttributeName_t name, const Desc& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{value.raw_});
  }
  Desc& integers(cudnnBackendAttributeName_t name, const Dims& values) {
    return set(name, CUDNN_TYPE_INT64, values);
  }
  Desc& real(cudnnBackendAttributeName_t name, double value) {
    return set(name, CUDNN_TYPE_DOUBLE, std::vector{value});
  }
  Desc& type(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return set(name, CUDNN_TYPE_DATA_TYPE, std::vector{value});
  }
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(raw_); }
  Desc& finalize() {
    EXPECT_CUDNN(try_finalize());
    return *this;
  }
  cudnnBackendDescriptor_t raw() const { return raw_; }

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

struct TensorOptions {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool is_virtual = false;
  bool by_value = false;
  bool channels_first = false;
  std::int64_t alignment = 16;
};

Dims channels_closest(const Dims& dims);
Dims row_major(const Dims& dims);
Desc tensor(std::int64_t uid, const Dims& dims, const TensorOptions& options = {});

struct Bound {
  std::int64_t uid;
  void* address;
};

// A graph of operations on a handle and stream of its own.
class Runner : public DoubleTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Plans with the engine of this index, and executes.
  void run(std::span<const Desc* const> operations, const std::vector<Bound>& tensors,
           std::int64_t engine = 1);
  void run(const Desc& operation, const std::vector<Bound>& tensors, std::int64_t engine = 1) {
    const Desc* one = &operation;
    run(std::span(&one, 1), tensors, engine);
  }
  Desc graph(std::span<const Desc* const> operations);
  std::vector<Desc> configurations(const Desc& graph, cudnnBackendHeurMode_t mode);
  Desc plan(const Desc& configuration);
  cudnnStatus_t execute(const Desc& plan, const std::vector<Bound>& tensors, void* workspace);

  cudaStream_t stream_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
};

std::vector<float> numbers(std::size_t count, unsigned seed);  // in [-1, 1]

}  // namespace cuda_double
