#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/cudnn/graphs.hpp"

namespace dtrain::backend::cuda {

using Dims = std::vector<std::int64_t>;  // n, c, h, w

// Collects the tensors and operations of one graph.
class GraphBuilder {
 public:
  explicit GraphBuilder(Element element) { graph_.element = element; }

  void without_products() { graph_.products = false; }  // see OperationGraph

  // Packed, channels closest; of the graph's element.
  const Descriptor& tensor(Role role, const Dims& dims);
  const Descriptor& pooling_index(const Dims& dims);
  const Descriptor& vector(Role role, int channels);  // fp32, one a channel
  const Descriptor& scalar(Role role, float value);
  const Descriptor& intermediate(const Dims& dims);  // fp32, between two operations

  // Finalises a parameter (a convolution's, a pointwise operation's, ...) and keeps it for operations to
  // name.
  const Descriptor& parameter(Descriptor& descriptor);
  void operation(Descriptor descriptor);

  void add(const Descriptor& x, const Descriptor& b, const Descriptor& y);  // y = x + b
  void relu(const Descriptor& x, const Descriptor& y);                      // y = max(x, 0)

  OperationGraph finish(std::string signature, cudnnHandle_t handle);

 private:
  const Descriptor& keep(Descriptor descriptor);
  Descriptor start_tensor(std::int64_t uid, cudnnDataType_t type, const Dims& dims);
  void bind(Role role, std::size_t bytes) { graph_.tensors.push_back({role, bytes}); }

  OperationGraph graph_;
  std::vector<Descriptor> operations_;
  std::int64_t next_intermediate_ = 100;
};

}  // namespace dtrain::backend::cuda
