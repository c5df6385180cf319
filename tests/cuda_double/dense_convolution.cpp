#include <cstring>
#include <memory>

#include "dense.hpp"

namespace cuda_double::dense {
namespace {

constexpr std::size_t tile_rows = 4;
constexpr std::size_t tile_columns = 16;

constexpr std::size_t lanes = 8;
constexpr std::size_t vectors = tile_columns / lanes;
using Vector [[gnu::vector_size(lanes * sizeof(float))]] = float;

// One tile of c stays in registers.
template <std::size_t rows>
[[gnu::always_inline]] inline void tile_body(std::size_t n, std::size_t k, const float* a, std::size_t a_row,
                                             std::size_t a_column, const float* b, float* c) {
  Vector sums[rows][vectors];
  std::memset(sums, 0, sizeof sums);
  for (std::size_t step = 0; step < k; ++step) {
    Vector right[vectors];
    std::memcpy(right, b + step * n, sizeof right);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < rows; ++i) {
      const float left = a[i * a_row + step * a_column];
#pragma GCC unroll 2
      for (std::size_t j = 0; j < vectors; ++j) sums[i][j] += left * right[j];
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    Vector before[vectors];
    std::memcpy(before, c + i * n, sizeof before);
    for (std::size_t j = 0; j < vectors; ++j) before[j] += sums[i][j];
    std::memcpy(c + i * n, before, sizeof before);
  }
}

template <std::size_t rows>
void tile(std::size_t n, std::size_t k, const float* a, std::size_t a_row, std::size_t a_column,
          const float* b, float* c) {
  tile_body<rows>(n, k, a, a_row, a_column, b, c);
}

#ifdef __x86_64__
template <std::size_t rows>
[[gnu::target("avx2,fma")]] void wide_tile(std::size_t n, std::size_t k, const float* a, std::size_t a_row,
                                           std::size_t a_column, const float* b, float* c) {
  tile_body<rows>(n, k, a, a_row, a_column, b, c);
}
#endif

using Tile = void (*)(std::size_t, std::size_t, const float*, std::size_t, std::size_t, const float*, float*);

template <std::size_t rows>
Tile best_tile() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return wide_tile<rows>;
#endif
  return tile<rows>;
}

void rest_of_columns(std::size_t m, std::size_t n, std::size_t k, std::size_t first, const float* a,
                     std::size_t a_row, std::size_t a_column, const float* b, float* c) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t step = 0; step < k; ++step) {
      const float left = a[i * a_row + step * a_column];
      for (std::size_t j = first; j < n; ++j) c[i * n + j] += left * b[step * n + j];
    }
  }
}

// The window of every output position, laid out as a row:
// [position][kernel_height][kernel_width][in_channels].
class Patches {
 public:
  explicit Patches(const Convolution& shape)
      : shape_(shape),
        positions_(static_cast<std::size_t>(shape.out_height * shape.out_width)),
        length_(static_cast<std::size_t>(shape.kernel_height * shape.kernel_width * shape.in_channels)),
        images_(static_cast<std::int64_t>(1 + 255 / positions_)) {
    values_.reset(new float[positions_ * length_ * static_cast<std::size_t>(images_)]);
  }

  std::size_t positions() const { return positions_; }
  std::size_t length() const { return length_; }
  std::int64_t images() const { return images_; }  // as many as fit at once
  float* values() const { return values_.get(); }

  void gather(const float* x, std::int64_t images) const {
    visit(images, [&](float* patch, std::int64_t pixel, std::size_t bytes) {
      if (pixel < 0) {
        std::memset(patch, 0, bytes);
      } else {
        std::memcpy(patch, x + pixel * shape_.in_channels, bytes);
      }
    });
  }

  void scatter(float* dx, std::int64_t images) const {
    visit(images, [&](const float* patch, std::int64_t pixel, std::size_t) {
      if (pixel < 0) return;
      float* to = dx + pixel * shape_.in_channels;
      for (std::int64_t c = 0; c < shape_.in_channels; ++c) to[c] += patch[c];
    });
  }

 private:
  template <class Each>
  void visit(std::int64_t images, Each each) const {
    const Convolution& s = shape_;
    float* patch = values_.get();
    const std::size_t bytes = static_cast<std::size_t>(s.in_channels) * sizeof(float);
    for (std::int64_t image = 0; image < images; ++image) {
      for (std::int64_t oh = 0; oh < s.out_height; ++oh) {
        for (std::int64_t ow = 0; ow < s.out_width; ++ow) {
          for (std::int64_t r = 0; r < s.kernel_height; ++r) {
            const std::int64_t h = oh * s.stride[0] - s.padding[0] + r * s.dilation[0];
            for (std::int64_t q = 0; q < s.kernel_width; ++q) {
              const std::int64_t w = ow * s.stride[1] - s.padding[1] + q * s.dilation[1];
              const bool inside = h >= 0 && h < s.height && w >= 0 && w < s.width;
              each(patch, inside ? (image * s.height + h) * s.width + w : -1, bytes);
              patch += s.in_channels;
            }
          }
        }
      }
    }
  }

  Convolution shape_;
  std::size_t positions_;
  std::size_t length_;
  std::int64_t images_;
  std::unique_ptr<float[]> values_;
};

template <class Part>
void by_images(const Convolution& shape, const Patches& patches, Part part) {
  for (std::int64_t first = 0; first < shape.images; first += patches.images()) {
    const std::int64_t left = shape.images - first;
    part(first, left < patches.images() ? left : patches.images());
  }
}

}  // namespace

void multiply_add(std::size_t m, std::size_t n, std::size_t k, const float* a, std::size_t a_row,
                  std::size_t a_column, const float* b, float* c) {
  static const Tile several_rows = best_tile<tile_rows>();
  static const Tile one_row = best_tile<1>();
  const std::size_t whole = n / tile_columns * tile_columns;
  for (std::size_t j = 0; j < whole; j += tile_columns) {
    std::size_t i = 0;
    for (; i + tile_rows <= m; i += tile_rows) {
      several_rows(n, k, a + i * a_row, a_row, a_column, b + j, c + i * n + j);
    }
    for (; i < m; ++i) one_row(n, k, a + i * a_row, a_row, a_column, b + j, c + i * n + j);
  }
  if (whole < n) rest_of_columns(m, n, k, whole, a, a_row, a_column, b, c);
}

void convolve(const Convolution& shape, const float* x, const float* w, float* y) {
  const Patches patches(shape);
  const auto out = static_cast<std::size_t>(shape.out_channels);
  const std::unique_ptr<float[]> turned(new float[patches.length() * out]);
  for (std::size_t k = 0; k < out; ++k) {
    for (std::size_t i = 0; i < patches.length(); ++i) turned[i * out + k] = w[k * patches.length() + i];
  }
  std::memset(y, 0, static_cast<std::size_t>(shape.images) * patches.positions() * out * sizeof(float));
  by_images(shape, patches, [&](std::int64_t first, std::int64_t images) {
    patches.gather(x + first * shape.height * shape.width * shape.in_channels, images);
    multiply_add(static_cast<std::size_t>(images) * patches.positions(), out, patches.length(),
                 patches.values(), patches.length(), 1, turned.get(),
                 y + static_cast<std::size_t>(first) * patches.positions() * out);
  });
}

void convolve_data_gradient(const Convolution& shape, const float* dy, const float* w, float* dx) {
  const Patches patches(shape);
  const auto out = static_cast<std::size_t>(shape.out_channels);
  const std::int64_t image = shape.height * shape.width * shape.in_channels;
  std::memset(dx, 0, static_cast<std::size_t>(shape.images * image) * sizeof(float));
  by_images(shape, patches, [&](std::int64_t first, std::int64_t images) {
    const std::size_t rows = static_cast<std::size_t>(images) * patches.positions();
    std::memset(patches.values(), 0, rows * patches.length() * sizeof(float));
    multiply_add(rows, patches.length(), out,
                 dy + static_cast<std::size_t>(first) * patches.positions() * out, out, 1, w,
                 patches.values());
    patches.scatter(dx + first * image, images);
  });
}

void convolve_weight_gradient(const Convolution& shape, const float* x, const float* dy, float* dw) {
  const Patches patches(shape);
  const auto out = static_cast<std::size_t>(shape.out_channels);
  std::memset(dw, 0, out * patches.length() * sizeof(float));
  by_images(shape, patches, [&](std::int64_t first, std::int64_t images) {
    patches.gather(x + first * shape.height * shape.width * shape.in_channels, images);
    const float* gradient = dy + static_cast<std::size_t>(first) * patches.positions() * out;
    multiply_add(out, patches.length(), static_cast<std::size_t>(images) * patches.positions(), gradient, 1,
                 out, patches.values(), dw);
  });
}

}  // namespace cuda_double::dense
