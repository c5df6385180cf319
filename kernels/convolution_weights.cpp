#include "kernels/convolution_weights.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/peak.hpp"

namespace dtrain::kernels {

namespace {

using Shape = WeightsGradientShape;

constexpr int taps = 3;
// Rows of dy that are walked for every input channel before the next ones: they should stay in the
// first-level cache.
constexpr std::size_t tile_bytes = 16 * 1024;

// Strides in floats.
struct Strides {
  explicit Strides(const Shape& s)
      : x_pixel(s.plain_input ? 1 : s.block),
        x_row(static_cast<std::ptrdiff_t>(s.in_width) * x_pixel),
        x_channel_group(s.in_height * x_row),
        x_image(x_channel_group * (s.plain_input ? s.in_channels : (s.in_channels + s.block - 1) / s.block)),
        y_row(static_cast<std::ptrdiff_t>(s.out_width()) * s.block),
        y_block(s.out_height() * y_row),
        y_image(y_block * (s.out_channels / s.block)) {}

  std::ptrdiff_t x_pixel, x_row, x_channel_group, x_image, y_row, y_block, y_image;
};

const float* input_channel(const Shape& s, const Strides& strides, const float* x, int channel) {
  if (s.plain_input) return x + channel * strides.x_channel_group;
  return x + channel / s.block * strides.x_channel_group + channel % s.block;
}

std::size_t weight_index(const Shape& s, int out_block, int channel, int tap) {
  const auto block = static_cast<std::size_t>(s.block);
  const std::size_t area = taps * taps;
  if (s.plain_input) {
    return ((out_block * area + tap) * static_cast<std::size_t>(s.in_channels) + channel) * block;
  }
  const std::size_t groups = static_cast<std::size_t>(s.in_channels) / block;
  return ((out_block * groups + channel / block) * area + tap) * block * block + channel % block * block;
}

// Rows [first, last) of one image, for one row of taps.
struct RowSpan {
  int first = 0;
  int last = 0;
};

RowSpan valid_rows(const Shape& s, int tap_row, RowSpan tile) {
  return {std::max(tile.first, s.padding - tap_row), std::min(tile.last, s.in_height + s.padding - tap_row)};
}

// `channels` input channels x 3 taps of one row x `vectors` output vectors stay in registers while pixels go
// by; the vectors come innermost so that one broadcast input is alive at a time.
template <class Vector, int channels, int vectors>
class TapRow {
 public:
  static constexpr int sums_count = channels * vectors * taps;
  using Index = std::make_index_sequence<sums_count>;

  inline __attribute__((always_inline)) void load(const float* const* targets) { load(targets, Index{}); }
  inline __attribute__((always_inline)) void store(float* const* targets) const { store(targets, Index{}); }

  // y: the first vector's pixel; x[c]: the pixel under the first tap.
  inline __attribute__((always_inline)) void add_pixel(const float* y, std::ptrdiff_t y_block,
                                                       const float* x0, std::ptrdiff_t x_channel,
                                                       std::ptrdiff_t x_pixel) {
    Vector d[vectors];
    load_all(d, y, y_block, std::make_index_sequence<vectors>{});
    add(d, x0, x_channel, x_pixel, Index{});
  }

  // At a border: only taps [first, last) lie inside the image. Constant, or the sums would leave their
  // registers.
  template <int first, int last>
  inline __attribute__((always_inline)) void add_border(const float* y, std::ptrdiff_t y_block,
                                                        const float* x0, std::ptrdiff_t x_channel,
                                                        std::ptrdiff_t x_pixel) {
    Vector d[vectors];
    load_all(d, y, y_block, std::make_index_sequence<vectors>{});
    add_taps<first>(d, x0, x_channel, x_pixel, std::make_index_sequence<channels * vectors*(last - first)>{});
  }

 private:
  template <std::size_t... i>
  inline __attribute__((always_inline)) void load(const float* const* targets, std::index_sequence<i...>) {
    ((sums_[i] = *reinterpret_cast<const Vector*>(targets[i])), ...);
  }
  template <std::size_t... i>
  inline __attribute__((always_inline)) void store(float* const* targets, std::index_sequence<i...>) const {
    ((*reinterpret_cast<Vector*>(targets[i]) = sums_[i]), ...);
  }
  template <std::size_t... v>
  static inline __attribute__((always_inline)) void load_all(Vector (&d)[vectors], const float* y,
                                                             std::ptrdiff_t y_block,
                                                             std::index_sequence<v...>) {
    ((d[v] = *reinterpret_cast<const Vector*>(y + static_cast<std::ptrdiff_t>(v) * y_block)), ...);
  }
  template <std::size_t... i>
  inline __attribute__((always_inline)) void add(const Vector (&d)[vectors], const float* x,
                                                 std::ptrdiff_t x_channel, std::ptrdiff_t x_pixel,
                                                 std::index_sequence<i...>) {
    ((sums_[i] += d[i % vectors] * x[static_cast<std::ptrdiff_t>(i / vectors / taps) * x_channel +
                                     static_cast<std::ptrdiff_t>(i / vectors % taps) * x_pixel]),
     ...);
  }

  template <int first, std::size_t... i>
  inline __attribute__((always_inline)) void add_taps(const Vector (&d)[vectors], const float* x,
                                                      std::ptrdiff_t x_channel, std::ptrdiff_t x_pixel,
                                                      std::index_sequence<i...>) {
    constexpr std::size_t width = sizeof...(i) / (channels * vectors);
    ((sums_[(i / vectors / width * taps + i / vectors % width + first) * vectors + i % vectors] +=
      d[i % vectors] * x[static_cast<std::ptrdiff_t>(i / vectors / width) * x_channel +
                         static_cast<std::ptrdiff_t>(i / vectors % width + first) * x_pixel]),
     ...);
  }

  Vector sums_[sums_count];
};

template <class Vector, int channels, int vectors>
inline __attribute__((always_inline)) void add_rows(const Shape& s, const Strides& st, const float* x,
                                                    const float* y, int tap_row, RowSpan rows,
                                                    float* const* targets) {
  const std::ptrdiff_t x_channel = s.plain_input ? st.x_channel_group : 1;
  const int width = s.out_width();
  TapRow<Vector, channels, vectors> sums;
  sums.load(targets);
  for (int h = rows.first; h < rows.last; ++h) {
    const float* y_row = y + h * st.y_row;
    const float* x_row = x + (h + tap_row - s.padding) * st.x_row - s.padding * st.x_pixel;
    if (s.padding > 0) {
      if (width == 1) {
        sums.template add_border<1, 2>(y_row, st.y_block, x_row, x_channel, st.x_pixel);
        continue;
      }
      const std::ptrdiff_t last = width - 1;
      sums.template add_border<1, taps>(y_row, st.y_block, x_row, x_channel, st.x_pixel);
      sums.template add_border<0, taps - 1>(y_row + last * s.block, st.y_block, x_row + last * st.x_pixel,
                                            x_channel, st.x_pixel);
    }
    const std::ptrdiff_t inner_end = width - s.padding;
    for (std::ptrdiff_t w = s.padding; w < inner_end; ++w) {
      sums.add_pixel(y_row + w * s.block, st.y_block, x_row + w * st.x_pixel, x_channel, st.x_pixel);
    }
  }
  sums.store(targets);
}

template <class Vector, int channels, int vectors>
inline __attribute__((always_inline)) void add_tile(const Shape& s, const Strides& st, const float* x,
                                                    const float* y, int first_image, int last_image,
                                                    RowSpan tile, int out_block, int channel, float* dw) {
  float* targets[channels * vectors * taps];
  for (int tap_row = 0; tap_row < taps; ++tap_row) {
    const RowSpan rows = valid_rows(s, tap_row, tile);
    for (int i = 0; i < channels * vectors * taps; ++i) {
      const int tap = tap_row * taps + i / vectors % taps;
      targets[i] = dw + weight_index(s, out_block + i % vectors, channel + i / vectors / taps, tap);
    }
    for (int n = first_image; n < last_image; ++n) {
      add_rows<Vector, channels, vectors>(s, st, input_channel(s, st, x + n * st.x_image, channel),
                                          y + n * st.y_image + out_block * st.y_block, tap_row, rows,
                                          targets);
    }
  }
}

template <class Vector, int vectors>
inline __attribute__((always_inline)) void add_channels(const Shape& s, const Strides& st, const float* x,
                                                        const float* y, int first_image, int last_image,
                                                        RowSpan tile, int out_block, float* dw) {
  int channel = 0;
  if constexpr (vectors == 1) {
    for (; channel + 3 <= s.in_channels && s.in_channels % 2 != 0; channel += 3) {
      add_tile<Vector, 3, vectors>(s, st, x, y, first_image, last_image, tile, out_block, channel, dw);
    }
  }
  for (; channel + 2 <= s.in_channels; channel += 2) {
    add_tile<Vector, 2, vectors>(s, st, x, y, first_image, last_image, tile, out_block, channel, dw);
  }
  for (; channel < s.in_channels; ++channel) {
    add_tile<Vector, 1, vectors>(s, st, x, y, first_image, last_image, tile, out_block, channel, dw);
  }
}

// Sums a tile's pixels; also what brings the tile into the cache.
template <class Vector>
inline __attribute__((always_inline)) void add_bias(const Shape& s, const Strides& st, const float* y,
                                                    int first_image, int last_image, RowSpan tile,
                                                    int out_block, float* db) {
  Vector even{};
  Vector odd{};
  const std::ptrdiff_t pixels = static_cast<std::ptrdiff_t>(tile.last - tile.first) * s.out_width();
  for (int n = first_image; n < last_image; ++n) {
    const float* pixel = y + n * st.y_image + out_block * st.y_block + tile.first * st.y_row;
    std::ptrdiff_t p = 0;
    for (; p + 2 <= pixels; p += 2, pixel += 2 * s.block) {
      even += *reinterpret_cast<const Vector*>(pixel);
      odd += *reinterpret_cast<const Vector*>(pixel + s.block);
    }
    if (p < pixels) even += *reinterpret_cast<const Vector*>(pixel);
  }
  *reinterpret_cast<Vector*>(db + static_cast<std::ptrdiff_t>(out_block) * s.block) += even + odd;
}

template <class Vector>
inline __attribute__((always_inline)) void run(const Shape& s, const float* x, const float* y, float* dw,
                                               float* db, bool add, int first_block, int last_block) {
  const Strides st(s);
  const bool pairs = s.in_channels % 2 == 0;
  const std::size_t row_bytes = static_cast<std::size_t>(st.y_row) * sizeof(float) * (pairs ? 2 : 1);
  const int tile_rows = std::clamp(static_cast<int>(tile_bytes / row_bytes), 1, s.out_height());
  const bool whole = tile_rows == s.out_height();
  const int tile_images =
      whole ? std::max(1, static_cast<int>(tile_bytes / (row_bytes * s.out_height()))) : 1;

  for (int block = first_block; block < last_block;) {
    const int vectors = pairs && block + 2 <= last_block ? 2 : 1;
    for (int b = block; !add && b < block + vectors; ++b) {
      for (int c = 0; c < s.in_channels; ++c) {
        for (int t = 0; t < taps * taps; ++t)
          std::memset(dw + weight_index(s, b, c, t), 0, s.block * sizeof(float));
      }
      if (db != nullptr) std::fill_n(db + static_cast<std::ptrdiff_t>(b) * s.block, s.block, 0.0F);
    }
    for (int n = 0; n < s.images; n += tile_images) {
      const int last_image = std::min(n + tile_images, s.images);
      for (int h = 0; h < s.out_height(); h += tile_rows) {
        const RowSpan tile{h, std::min(h + tile_rows, s.out_height())};
        for (int b = block; db != nullptr && b < block + vectors; ++b) {
          add_bias<Vector>(s, st, y, n, last_image, tile, b, db);
        }
        if (vectors == 2) {
          add_channels<Vector, 2>(s, st, x, y, n, last_image, tile, block, dw);
        } else {
          add_channels<Vector, 1>(s, st, x, y, n, last_image, tile, block, dw);
        }
      }
    }
    block += vectors;
  }
}

#if defined(__x86_64__)
using Vector8 = float __attribute__((vector_size(32), aligned(4), may_alias));
using Vector16 = float __attribute__((vector_size(64), aligned(4), may_alias));

__attribute__((target("arch=x86-64-v3"))) void run_avx2(const Shape& s, const float* x, const float* y,
                                                        float* dw, float* db, bool add, int first, int last) {
  run<Vector8>(s, x, y, dw, db, add, first, last);
}
__attribute__((target("arch=x86-64-v4"))) void run_avx512(const Shape& s, const float* x, const float* y,
                                                          float* dw, float* db, bool add, int first,
                                                          int last) {
  run<Vector16>(s, x, y, dw, db, add, first, last);
}
#endif

}  // namespace

bool weights_gradient_supported(const Shape& s) {
#if defined(__x86_64__)
  const std::string_view isa = instruction_set();
  const int width = isa == "avx512" ? 16 : isa == "avx2" ? 8 : 0;
  return s.block == width && s.out_channels % s.block == 0 && (s.padding == 0 || s.padding == 1) &&
         (s.plain_input || s.in_channels % s.block == 0) && s.out_width() > 0 && s.out_height() > 0;
#else
  (void)s;
  return false;
#endif
}

void weights_gradient(const Shape& s, const float* x, const float* dy, float* dw, std::span<float> db,
                      bool add, int first_block, int last_block) {
#if defined(__x86_64__)
  const auto kernel = s.block == 16 ? run_avx512 : run_avx2;
  kernel(s, x, dy, dw, db.empty() ? nullptr : db.data(), add, first_block, last_block);
#else
  (void)s, (void)x, (void)dy, (void)dw, (void)db, (void)add, (void)first_block, (void)last_block;
#endif
}

void weights_gradient_reference(const Shape& s, const float* x, const float* dy, float* dw,
                                std::span<float> db) {
  const Strides st(s);
  for (int o = 0; o < s.out_channels; ++o) {
    const auto output = [&](int n, int h, int w) {
      return static_cast<double>(
          dy[n * st.y_image + o / s.block * st.y_block + h * st.y_row + w * s.block + o % s.block]);
    };
    for (int c = 0; c < s.in_channels; ++c) {
      for (int t = 0; t < taps * taps; ++t) {
        double sum = 0.0;
        for (int n = 0; n < s.images; ++n) {
          const float* plane = input_channel(s, st, x + n * st.x_image, c);
          for (int h = 0; h < s.out_height(); ++h) {
            for (int w = 0; w < s.out_width(); ++w) {
              const int row = h + t / taps - s.padding;
              const int column = w + t % taps - s.padding;
              if (row < 0 || row >= s.in_height || column < 0 || column >= s.in_width) continue;
              sum += output(n, h, w) * plane[row * st.x_row + column * st.x_pixel];
            }
          }
        }
        dw[weight_index(s, o / s.block, c, t) + static_cast<std::size_t>(o % s.block)] =
            static_cast<float>(sum);
      }
    }
    if (db.empty()) continue;
    double sum = 0.0;
    for (int n = 0; n < s.images; ++n) {
      for (int h = 0; h < s.out_height(); ++h) {
        for (int w = 0; w < s.out_width(); ++w) sum += output(n, h, w);
      }
    }
    db[static_cast<std::size_t>(o)] = static_cast<float>(sum);
  }
}

}  // namespace dtrain::kernels
