#include "kernels/normalise.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "kernels/dispatch.hpp"

namespace dtrain::kernels {

namespace {

constexpr int channels = 3;
constexpr int side = 32;
constexpr int plane = side * side;

}  // namespace

Normalisation Normalisation::from(const float (&mean)[3], const float (&deviation)[3]) {
  Normalisation out;
  for (int c = 0; c < channels; ++c) {
    out.scale[c] = 1.0F / (255.0F * deviation[c]);
    out.shift[c] = -mean[c] / deviation[c];
  }
  return out;
}

DTRAIN_DISPATCH
void normalise_nchw(const std::uint8_t* __restrict image, float* __restrict out,
                    const Normalisation& normalisation) {
  for (int c = 0; c < channels; ++c) {
    const float scale = normalisation.scale[c];
    const float shift = normalisation.shift[c];
    for (int i = 0; i < plane; ++i) {
      out[c * plane + i] = static_cast<float>(image[c * plane + i]) * scale + shift;
    }
  }
}

// Bytes are interleaved first, being a quarter of the size; the floats then leave in order, with scale and
// shift repeating every three vectors.
DTRAIN_DISPATCH
void normalise_nhwc(const std::uint8_t* __restrict image, float* __restrict out,
                    const Normalisation& normalisation) {
  constexpr int block = 32;
  constexpr int values = channels * block;
  float scale[values];
  float shift[values];
  for (int i = 0; i < values; ++i) {
    scale[i] = normalisation.scale[i % channels];
    shift[i] = normalisation.shift[i % channels];
  }
  std::uint8_t pixels[values];
  for (int start = 0; start < plane; start += block) {
    for (int i = 0; i < block; ++i) {
      pixels[channels * i] = image[start + i];
      pixels[channels * i + 1] = image[plane + start + i];
      pixels[channels * i + 2] = image[2 * plane + start + i];
    }
    for (int i = 0; i < values; ++i) {
      out[channels * start + i] = static_cast<float>(pixels[i]) * scale[i] + shift[i];
    }
  }
}

DTRAIN_DISPATCH
void crop_and_flip(const std::uint8_t* __restrict image, std::uint8_t* __restrict out, Crop crop) {
  std::uint8_t bordered[3 * side] = {};
  for (int row = 0; row < channels * side; ++row) {
    const int y = row % side + crop.y;
    std::uint8_t* target = out + static_cast<std::ptrdiff_t>(row) * side;
    if (y < 0 || y >= side) {
      std::memset(target, 0, side);
      continue;
    }
    std::memcpy(bordered + side, image + static_cast<std::ptrdiff_t>(row - row % side + y) * side, side);
    const std::uint8_t* window = bordered + side + crop.x;
    if (crop.flip) {
      for (int x = 0; x < side; ++x) target[x] = window[side - 1 - x];
    } else {
      std::memcpy(target, window, side);
    }
  }
}

void normalise_reference(const std::uint8_t* image, float* out, const Normalisation& normalisation, Crop crop,
                         bool channels_last) {
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const int from_y = y + crop.y;
        const int from_x = (crop.flip ? side - 1 - x : x) + crop.x;
        const bool inside = from_y >= 0 && from_y < side && from_x >= 0 && from_x < side;
        const float byte = inside ? image[c * plane + from_y * side + from_x] : 0.0F;
        const int index = channels_last ? (y * side + x) * channels + c : c * plane + y * side + x;
        out[index] = byte * normalisation.scale[c] + normalisation.shift[c];
      }
    }
  }
}

}  // namespace dtrain::kernels
