#pragma once

#include <cudnn.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>

// Arithmetic on private arrays of floats. These files are always optimised and never sanitized: the tensors
// of the program under test are read and written elsewhere (tensor.cpp), under the sanitizers' eyes.
namespace cuda_double::dense {

void to_float(cudnnDataType_t type, const void* from, std::size_t count, float* to);
void from_float(cudnnDataType_t type, const float* from, std::size_t count, void* to);  // to nearest even
void round_to_tf32(float* values, std::size_t count);

// c[m][n] += a[m][k] b[k][n]; element (i, j) of a is a[i * a_row + j * a_column].
void multiply_add(std::size_t m, std::size_t n, std::size_t k, const float* a, std::size_t a_row,
                  std::size_t a_column, const float* b, float* c);

// Images are [n][height][width][channels], weights [out_channels][kernel_height][kernel_width][in_channels].
struct Convolution {
  std::int64_t images, height, width, in_channels;
  std::int64_t out_channels, kernel_height, kernel_width;
  std::int64_t out_height, out_width;
  std::int64_t padding[2], stride[2], dilation[2];
};
void convolve(const Convolution& shape, const float* x, const float* w, float* y);
void convolve_data_gradient(const Convolution& shape, const float* dy, const float* w, float* dx);
void convolve_weight_gradient(const Convolution& shape, const float* x, const float* dy, float* dw);

// Rows of channels; statistics by channel.
void batch_statistics(std::size_t rows, std::size_t channels, const float* x, double* mean, double* variance);
void normalise(std::size_t rows, std::size_t channels, const float* x, const float* mean,
               const float* inverse, const float* scale, const float* bias, float* y);
void batch_norm_gradient(std::size_t rows, std::size_t channels, const float* x, const float* dy,
                         const float* mean, const float* inverse, const float* scale, float* dx,
                         float* dscale, float* dbias);

// total = values x factor at first, and then total (kind) values x factor. Overwrites `values`.
void reduce(ncclDataType_t type, ncclRedOp_t kind, double factor, bool first, void* values, std::size_t count,
            void* total);

}  // namespace cuda_double::dense
