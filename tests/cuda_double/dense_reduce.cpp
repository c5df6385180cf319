#include <memory>

#include "dense.hpp"

namespace cuda_double::dense {
namespace {

template <class T>
T combined(ncclRedOp_t kind, T a, T b) {
  switch (kind) {
    case ncclProd:
      return static_cast<T>(a * b);
    case ncclMax:
      return a > b ? a : b;
    case ncclMin:
      return a < b ? a : b;
    default:
      return static_cast<T>(a + b);
  }
}

template <class T>
void reduce_as(ncclRedOp_t kind, double factor, bool first, const void* from, std::size_t count, void* to) {
  const auto* values = static_cast<const T*>(from);
  auto* total = static_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    const T value = factor == 1.0 ? values[i] : static_cast<T>(values[i] * static_cast<T>(factor));
    total[i] = first ? value : combined(kind, total[i], value);
  }
}

// Rounded to 16 bits after every step, as NCCL's kernels do.
void reduce_halves(cudnnDataType_t type, ncclRedOp_t kind, double factor, bool first, void* from,
                   std::size_t count, void* to) {
  const std::unique_ptr<float[]> wide(new float[2 * count]);
  float* value = wide.get();
  float* total = value + count;
  to_float(type, from, count, value);
  if (factor != 1.0) {
    for (std::size_t i = 0; i < count; ++i) value[i] *= static_cast<float>(factor);
    from_float(type, value, count, from);
    to_float(type, from, count, value);
  }
  if (!first) {
    to_float(type, to, count, total);
    for (std::size_t i = 0; i < count; ++i) value[i] = combined(kind, total[i], value[i]);
  }
  from_float(type, value, count, to);
}

}  // namespace

void reduce(ncclDataType_t type, ncclRedOp_t kind, double factor, bool first, void* values, std::size_t count,
            void* total) {
  switch (type) {
    case ncclFloat16:
      return reduce_halves(CUDNN_DATA_HALF, kind, factor, first, values, count, total);
    case ncclBfloat16:
      return reduce_halves(CUDNN_DATA_BFLOAT16, kind, factor, first, values, count, total);
    case ncclFloat64:
      return reduce_as<double>(kind, factor, first, values, count, total);
    case ncclInt32:
      return reduce_as<std::int32_t>(kind, factor, first, values, count, total);
    default:
      return reduce_as<float>(kind, factor, first, values, count, total);
  }
}

}  // namespace cuda_double::dense
