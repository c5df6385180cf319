#include "kernels/cuda/load_images.hpp"

#include "kernels/cuda/for_each.cuh"

namespace dtrain::kernels::cuda {

namespace {

constexpr int side = 32;
constexpr int plane = side * side;
constexpr int colours = 3;

// Where a pixel of an image comes from; -1: the black border.
__device__ inline int source_pixel(Crop crop, int y, int x) {
  const int from_y = y + crop.y;
  const int from_x = (crop.flip ? side - 1 - x : x) + crop.x;
  const bool inside = from_y >= 0 && from_y < side && from_x >= 0 && from_x < side;
  return inside ? from_y * side + from_x : -1;
}

// Planes of one image: floats, or bytes.
struct Source {
  const float* floats;
  const std::uint8_t* bytes;
};

__device__ inline float normalised(const Source& source, int pixel, int colour,
                                   const Normalisation& normalisation) {
  if (source.floats != nullptr && pixel >= 0) return __ldg(source.floats + colour * plane + pixel);
  const float byte = pixel < 0 ? 0.0F : static_cast<float>(__ldg(source.bytes + colour * plane + pixel));
  return byte * normalisation.scale[colour] + normalisation.shift[colour];
}

// A thread makes `Pixels` neighbours of one row, which fill whole packs.
template <class T, int Channels, int Pixels>
struct PackedPixels {
  static constexpr int pixels = Pixels;
  T* images;

  __device__ void write(std::size_t at, const Source& source, const int (&from)[Pixels],
                        const Normalisation& normalisation) const {
    constexpr int values = Pixels * Channels;
    constexpr int some = values % full_pack<T> == 0 ? full_pack<T> : 4;
    float all[values];
#pragma unroll
    for (int i = 0; i < values; ++i) {
      const int colour = i % Channels;
      all[i] = colour < colours ? normalised(source, from[i / Channels], colour, normalisation) : 0.0F;
    }
#pragma unroll
    for (int first = 0; first < values; first += some) {
      float pack[some];
#pragma unroll
      for (int i = 0; i < some; ++i) pack[i] = all[first + i];
      store(images + at * Channels + first, pack);
    }
  }
};

template <class T>
struct PlainPixels {
  static constexpr int pixels = 1;
  T* images;
  int channels;

  __device__ void write(std::size_t at, const Source& source, const int (&from)[1],
                        const Normalisation& normalisation) const {
    T* to = images + at * static_cast<std::size_t>(channels);
    for (int c = 0; c < channels; ++c) {
      from_float(c < colours ? normalised(source, from[0], c, normalisation) : 0.0F, to[c]);
    }
  }
};

template <class Pixels>
__global__ void __launch_bounds__(block_size)
    load_images_kernel(const StepBlock* __restrict__ step,
                       const __grid_constant__ Normalisation normalisation, unsigned count, Pixels out,
                       std::int32_t* labels) {
  constexpr int groups = plane / Pixels::pixels;  // in an image
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t all = static_cast<std::size_t>(count) * groups;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < all;
       i += stride) {
    const auto image = static_cast<unsigned>(i / groups);
    const int first = static_cast<int>(i % groups) * Pixels::pixels;
    const std::size_t record =
        step->records != nullptr ? static_cast<std::size_t>(__ldg(step->records + image)) : image;
    const Crop crop = step->crops != nullptr ? step->crops[image] : Crop{};

    int from[Pixels::pixels];
#pragma unroll
    for (int p = 0; p < Pixels::pixels; ++p) {
      from[p] = source_pixel(crop, first / side, first % side + p);
    }
    const std::size_t offset = record * colours * plane;
    const Source source = step->images != nullptr ? Source{step->images + offset, nullptr}
                                                  : Source{nullptr, step->pixels + offset};
    out.write(static_cast<std::size_t>(image) * plane + first, source, from, normalisation);
    if (first == 0 && labels != nullptr) labels[image] = __ldg(step->labels + record);
  }
}

template <class Pixels>
cudaError_t start(const StepBlock* step, const Normalisation& normalisation, int count, const Pixels& pixels,
                  std::int32_t* labels, cudaStream_t stream) {
  const auto images = static_cast<unsigned>(count);
  const std::size_t threads = static_cast<std::size_t>(images) * (plane / Pixels::pixels);
  return launch_independent(load_images_kernel<Pixels>, blocks_for(threads), block_size, stream, step,
                            normalisation, images, pixels, labels);
}

}  // namespace

cudaError_t load_images(const StepBlock* step, const Normalisation& normalisation, int count,
                        const ImageTarget& target, cudaStream_t stream) {
  if (count < 0 || target.channels < colours) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  return with_element(target.element, [&]<class T>(ElementType<T>) {
    auto* images = static_cast<T*>(target.images);
    const bool aligned = is_aligned(images, 0, full_pack<T>);
    if (aligned && target.channels == 3) {
      return start(step, normalisation, count, PackedPixels<T, 3, 4>{images}, target.labels, stream);
    }
    if (aligned && target.channels == 4) {
      return start(step, normalisation, count, PackedPixels<T, 4, 1>{images}, target.labels, stream);
    }
    if (aligned && target.channels == 8) {
      return start(step, normalisation, count, PackedPixels<T, 8, 1>{images}, target.labels, stream);
    }
    return start(step, normalisation, count, PlainPixels<T>{images, target.channels}, target.labels, stream);
  });
}

}  // namespace dtrain::kernels::cuda
