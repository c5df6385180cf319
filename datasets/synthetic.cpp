#include "datasets/synthetic.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "datasets/checksummed.hpp"
#include "datasets/record_store.hpp"
#include "kernels/dispatch.hpp"

namespace dtrain::datasets {

namespace {

enum class Shape { disc, square, triangle, ring, cross };

constexpr int unit = 16;  // a pixel, in the coordinates of shapes
constexpr int plane = image_size * image_size;

struct Colour {
  int channel[image_channels];
};

// What an image shows. Lengths in sixteenths of a pixel.
struct Scene {
  Shape shape;
  int x, y, radius;
  int slant;  // 256 x tangent of the angle
  Colour colour;
  Colour background, background_x,
      background_y;  // shade at the corner, and its change over the width and height
  int noise;         // largest change of a byte
  std::uint32_t noise_seed;
};

std::uint64_t stream(std::uint64_t seed, Split split, std::uint64_t purpose, std::uint64_t index) {
  return mix(mix(seed, split == Split::train ? 1 : 2) ^ purpose, index);
}

int between(Random& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

Colour shape_colour(Random& random, bool warm) {
  const int strong = between(random, 150, 250);
  const int middle = between(random, 20, 170);
  const int weak = between(random, 0, 70);
  return warm ? Colour{{strong, middle, weak}} : Colour{{weak, middle, strong}};
}

int contrast(const Colour& a, const Colour& b) {
  int sum = 0;
  for (int c = 0; c < image_channels; ++c) sum += std::abs(a.channel[c] - b.channel[c]);
  return sum;
}

Scene make_scene(std::uint64_t seed, Split split, std::size_t index) {
  constexpr std::uint64_t purpose = 0x7363656e65;
  Random random(stream(seed, split, purpose, index));
  const int label = synthetic_label(seed, split, index);
  Scene scene = {};
  scene.shape = static_cast<Shape>(label % 5);
  scene.radius = between(random, 7 * unit, 11 * unit);
  const int room = image_size * unit / 2 - scene.radius;
  scene.x = image_size * unit / 2 + between(random, -room, room);
  scene.y = image_size * unit / 2 + between(random, -room, room);
  scene.slant = between(random, -70, 70);
  scene.colour = shape_colour(random, label < 5);
  do {
    for (int& shade : scene.background.channel) shade = between(random, 20, 220);
  } while (contrast(scene.colour, scene.background) < 100);
  for (int& change : scene.background_x.channel) change = between(random, -60, 60);
  for (int& change : scene.background_y.channel) change = between(random, -60, 60);
  scene.noise = between(random, 8, 36);
  scene.noise_seed = static_cast<std::uint32_t>(random.next());
  return scene;
}

// How much of each pixel the shape covers, 0..256, from the signed distance to its edge.
template <class Distance>
[[gnu::always_inline]] inline void cover(const Scene& scene, std::int32_t* coverage, Distance distance) {
  for (int y = 0; y < image_size; ++y) {
    const std::int32_t dy = y * unit + unit / 2 - scene.y;
    for (int x = 0; x < image_size; ++x) {
      const std::int32_t dx = x * unit + unit / 2 - scene.x;
      const std::int32_t u = dx + ((scene.slant * dy) >> 8);
      const std::int32_t v = dy - ((scene.slant * dx) >> 8);
      const std::int32_t inside = unit / 2 - distance(u, v);
      coverage[y * image_size + x] = std::clamp(inside, 0, unit) * (256 / unit);
    }
  }
}

DTRAIN_DISPATCH
void cover_by_shape(const Scene& scene, std::int32_t* coverage) {
  const std::int32_t r = scene.radius;
  switch (scene.shape) {
    case Shape::disc: {
      const std::int32_t slope = 4096 / (2 * r);  // (d^2 - r^2) / 2r is the distance near the edge
      cover(scene, coverage, [r, slope](int u, int v) { return ((u * u + v * v - r * r) * slope) >> 12; });
      return;
    }
    case Shape::square:
      cover(scene, coverage, [r](int u, int v) { return std::max(std::abs(u), std::abs(v)) - r * 7 / 8; });
      return;
    case Shape::triangle:
      cover(scene, coverage,
            [r](int u, int v) { return std::max((std::abs(u) * 222 - v * 128) >> 8, v) - r * 9 / 16; });
      return;
    case Shape::ring: {
      const std::int32_t middle = r * 3 / 4;
      const std::int32_t slope = 4096 / (2 * middle);
      cover(scene, coverage, [r, middle, slope](int u, int v) {
        return (std::abs((u * u + v * v - middle * middle) * slope) >> 12) - r / 4;
      });
      return;
    }
    case Shape::cross:
      cover(scene, coverage, [r](int u, int v) {
        const int a = std::abs(u);
        const int b = std::abs(v);
        return std::max(std::max(a, b) - r, std::min(a, b) - r * 5 / 16);
      });
      return;
  }
}

// A mixing of 32 bits with low bias (two rounds of multiply and shift): fast in vectors, where order in
// memory must not matter.
[[gnu::always_inline]] inline std::uint32_t scramble(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x21f0aaadU;
  x = (x ^ (x >> 15)) * 0x735a2d97U;
  return x ^ (x >> 15);
}

DTRAIN_DISPATCH
void paint(const Scene& scene, const std::int32_t* coverage, std::uint8_t* out) {
  for (int c = 0; c < image_channels; ++c) {
    const std::int32_t colour = scene.colour.channel[c];
    const std::int32_t change_x = scene.background_x.channel[c];
    for (int y = 0; y < image_size; ++y) {
      const std::int32_t row = scene.background.channel[c] + scene.background_y.channel[c] * y / image_size;
      for (int x = 0; x < image_size; ++x) {
        const int i = y * image_size + x;
        const std::int32_t behind = row + ((change_x * x) >> 5);
        const std::int32_t clean = behind + (((colour - behind) * coverage[i]) >> 8);
        const auto grain = static_cast<std::int32_t>((scramble(scene.noise_seed + i) >> (8 * c)) & 255);
        out[c * plane + i] =
            static_cast<std::uint8_t>(std::clamp(clean + (((grain - 128) * scene.noise) >> 7), 0, 255));
      }
    }
  }
}

class SyntheticDataset final : public ChecksummedDataset {
 public:
  explicit SyntheticDataset(const SyntheticConfig& config)
      : config_(config),
        distinct_(std::min(config.size, config.distinct)),
        images_(distinct_, draw(config)) {}

  const std::string& name() const override { return name_; }
  std::size_t size() const override { return config_.size; }
  int label(std::size_t index) const override {
    return synthetic_label(config_.seed, config_.split, index % distinct_);
  }
  std::span<const std::uint8_t, pixels_per_image> pixels(std::size_t index) const override {
    return images_.at(index % distinct_);
  }

 private:
  static RecordStore::Make draw(const SyntheticConfig& config) {
    return [seed = config.seed, split = config.split](std::size_t index, auto out) {
      draw_image(seed, split, index, out);
    };
  }

  std::string name_ = "synthetic";
  SyntheticConfig config_;
  std::size_t distinct_;
  RecordStore images_;
};

}  // namespace

void draw_image(std::uint64_t seed, Split split, std::size_t index,
                std::span<std::uint8_t, pixels_per_image> out) {
  const Scene scene = make_scene(seed, split, index);
  alignas(64) std::int32_t coverage[plane];
  cover_by_shape(scene, coverage);
  paint(scene, coverage, out.data());
}

int synthetic_label(std::uint64_t seed, Split split, std::size_t index) {
  constexpr std::uint64_t purpose = 0x6c6162656c;
  Random random(stream(seed, split, purpose, index / class_count));
  std::array<int, class_count> classes = {};
  std::iota(classes.begin(), classes.end(), 0);
  const std::size_t position = index % class_count;
  for (std::size_t i = 0; i <= position; ++i)
    std::swap(classes[i], classes[i + random.below(class_count - i)]);
  return classes[position];
}

const std::vector<std::string>& synthetic_class_names() {
  static const std::vector<std::string> names = {
      "warm disc", "warm square", "warm triangle", "warm ring", "warm cross",
      "cool disc", "cool square", "cool triangle", "cool ring", "cool cross"};
  return names;
}

std::shared_ptr<const Dataset> make_synthetic(const SyntheticConfig& config) {
  if (config.size == 0 || config.distinct == 0) {
    throw usage_error("a synthetic set of 0 images", "ask for at least one image");
  }
  return std::make_shared<SyntheticDataset>(config);
}

}  // namespace dtrain::datasets
