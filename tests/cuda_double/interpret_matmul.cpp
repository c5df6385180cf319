#include "dense.hpp"
#include "program.hpp"

namespace cuda_double {

// c[batch][m][n] = a[batch][m][k] b[batch][k][n]; a batch of 1 is repeated.
Step matmul(const Content& operation) {
  const TensorSpec a = tensor_of(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const TensorSpec b = tensor_of(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  const TensorSpec c = tensor_of(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  for (const TensorSpec* tensor : {&a, &b, &c}) {
    require_shape(tensor->dims.size() == 3, operation, shape_of(*tensor) + " is not [batch, rows, columns]");
  }
  const std::int64_t batch = c.dims[0];
  require_shape((a.dims[0] == batch || a.dims[0] == 1) && (b.dims[0] == batch || b.dims[0] == 1), operation,
                "batches of " + shape_of(a) + ", " + shape_of(b) + " and " + shape_of(c));
  require_shape(a.dims[1] == c.dims[1] && b.dims[2] == c.dims[2] && a.dims[2] == b.dims[1], operation,
                shape_of(a) + " times " + shape_of(b) + " is not " + shape_of(c));
  return {{a, b}, {c}, [=](Frame& frame) {
            const auto m = static_cast<std::size_t>(c.dims[1]);
            const auto n = static_cast<std::size_t>(c.dims[2]);
            const auto k = static_cast<std::size_t>(a.dims[2]);
            const Values left = frame.load_factor(a);
            const Values right = frame.load_factor(b);
            Values product(c.elements(), 0.0F);
            for (std::size_t i = 0; i < static_cast<std::size_t>(batch); ++i) {
              dense::multiply_add(m, n, k, left.data() + (a.dims[0] == 1 ? 0 : i * m * k), k, 1,
                                  right.data() + (b.dims[0] == 1 ? 0 : i * k * n),
                                  product.data() + i * m * n);
            }
            frame.store(c, product);
          }};
}

}  // namespace cuda_double
