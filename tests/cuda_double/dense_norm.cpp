#include <memory>

#include "dense.hpp"

namespace cuda_double::dense {

void batch_statistics(std::size_t rows, std::size_t channels, const float* x, double* mean,
                      double* variance) {
  const auto count = static_cast<double>(rows);
  for (std::size_t c = 0; c < channels; ++c) mean[c] = variance[c] = 0.0;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t c = 0; c < channels; ++c) mean[c] += static_cast<double>(x[row * channels + c]);
  }
  for (std::size_t c = 0; c < channels; ++c) mean[c] /= count;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t c = 0; c < channels; ++c) {
      const double away = static_cast<double>(x[row * channels + c]) - mean[c];
      variance[c] += away * away;
    }
  }
  for (std::size_t c = 0; c < channels; ++c) variance[c] /= count;
}

void normalise(std::size_t rows, std::size_t channels, const float* x, const float* mean,
               const float* inverse, const float* scale, const float* bias, float* y) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t i = row * channels + c;
      y[i] = scale[c] * ((x[i] - mean[c]) * inverse[c]) + bias[c];
    }
  }
}

void batch_norm_gradient(std::size_t rows, std::size_t channels, const float* x, const float* dy,
                         const float* mean, const float* inverse, const float* scale, float* dx,
                         float* dscale, float* dbias) {
  const std::unique_ptr<double[]> sums(new double[2 * channels]());
  double* sum = sums.get();
  double* product = sum + channels;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t i = row * channels + c;
      sum[c] += static_cast<double>(dy[i]);
      product[c] += static_cast<double>(dy[i] * ((x[i] - mean[c]) * inverse[c]));
    }
  }
  for (std::size_t c = 0; c < channels; ++c) {
    dbias[c] = static_cast<float>(sum[c]);
    dscale[c] = static_cast<float>(product[c]);
  }
  const auto share = static_cast<float>(1.0 / static_cast<double>(rows));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t i = row * channels + c;
      const float normal = (x[i] - mean[c]) * inverse[c];
      dx[i] = scale[c] * inverse[c] * (dy[i] - share * (dbias[c] + normal * dscale[c]));
    }
  }
}

}  // namespace cuda_double::dense
