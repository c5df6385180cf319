#pragma once

#include <cstddef>
#include <span>

namespace dtrain::kernels {

// Gradient of a 3x3, stride 1 convolution's weights and bias over blocked layouts, where the vendor library's
// own kernel reaches little more than half of the processor's peak.
struct WeightsGradientShape {
  int images = 0;
  int in_channels = 0;
  int in_height = 0;
  int in_width = 0;
  int out_channels = 0;  // a multiple of block
  int padding = 0;       // 0 or 1
  int block = 8;         // channels that lie together in dy and in the weights: the vector width, 8 or 16
  bool plain_input =
      false;  // x is NCHW and the weights Ohwi{block}o; otherwise nChw{block}c and OIhw{block}i{block}o

  int out_height() const { return in_height - 2 + 2 * padding; }
  int out_width() const { return in_width - 2 + 2 * padding; }
};

// Whether the fast kernel serves this shape on this processor.
bool weights_gradient_supported(const WeightsGradientShape& shape);

// For output blocks [first_block, last_block) of out_channels / block: one core's part. x: images; dy:
// gradient of the output, nChw{block}c. Overwrites dw and db (out_channels; may be empty), or adds to them.
// Supported shapes only.
void weights_gradient(const WeightsGradientShape& shape, const float* x, const float* dy, float* dw,
                      std::span<float> db, bool add, int first_block, int last_block);

// The definition, in double precision; overwrites.
void weights_gradient_reference(const WeightsGradientShape& shape, const float* x, const float* dy, float* dw,
                                std::span<float> db);

}  // namespace dtrain::kernels
