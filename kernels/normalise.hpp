#pragma once

#include <cstdint>

namespace dtrain::kernels {

// One 3 x 32 x 32 image of bytes, planes of red, green and blue, becomes floats: byte * scale + shift by
// channel.
struct Normalisation {
  float scale[3] = {1.0F, 1.0F, 1.0F};
  float shift[3] = {0.0F, 0.0F, 0.0F};

  // (byte / 255 - mean) / deviation
  static Normalisation from(const float (&mean)[3], const float (&deviation)[3]);
};

// Where the 32 x 32 window lies over the image in its black border, and whether it is mirrored afterwards.
// Pixels outside the image are bytes of 0, as in torchvision's RandomCrop before Normalize. |x|, |y| <= 32.
struct Crop {
  int x = 0;  // columns to the right
  int y = 0;  // rows down
  bool flip = false;
};

// out[c][y][x], 3072 floats. `image` and `out` do not overlap.
void normalise_nchw(const std::uint8_t* image, float* out, const Normalisation& normalisation);
// out[y][x][c], 3072 floats.
void normalise_nhwc(const std::uint8_t* image, float* out, const Normalisation& normalisation);
// Cuts the window out of `image`: 3072 bytes in the same planes.
void crop_and_flip(const std::uint8_t* image, std::uint8_t* out, Crop crop);

// All of the above in one plain loop: what tests hold the fast ones against.
void normalise_reference(const std::uint8_t* image, float* out, const Normalisation& normalisation, Crop crop,
                         bool channels_last);

}  // namespace dtrain::kernels
