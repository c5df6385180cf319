#pragma once

#include <cstdint>

namespace dtrain::kernels {

// Max pooling with window = stride = size over arrays [outer][height][width][inner]: inner is 8 or 16 for
// blocked layouts, the channels for NHWC, 1 for NCHW. Rows and columns that fill no whole window are left
// out.
struct PoolShape {
  std::size_t outer = 0;
  int height = 0;
  int width = 0;
  int inner = 0;
  int size = 2;
  int out_height() const { return height / size; }
  int out_width() const { return width / size; }
};

inline constexpr std::uint8_t pool_nothing = 255;

// `winner` holds the first window position (row-major) of the maximum. With `relu`, y is max(0, maximum) and
// a window without a positive element has no winner, so that backward needs no second mask.
void max_pool_forward(const PoolShape& shape, bool relu, const float* x, float* y, std::uint8_t* winner);

// Overwrites dx.
void max_pool_backward(const PoolShape& shape, const float* dy, const std::uint8_t* winner, float* dx);

void max_pool_forward_reference(const PoolShape& shape, bool relu, const float* x, float* y,
                                std::uint8_t* winner);
void max_pool_backward_reference(const PoolShape& shape, const float* dy, const std::uint8_t* winner,
                                 float* dx);

}  // namespace dtrain::kernels
