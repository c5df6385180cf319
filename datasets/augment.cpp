#include "datasets/augment.hpp"

#include "base/random.hpp"

namespace dtrain::datasets {

kernels::Crop augmentation(std::uint64_t seed, int epoch, std::uint32_t image) {
  constexpr std::uint64_t purpose = 0x61756772;
  constexpr int border = 4;
  Random random(mix(mix(mix(seed, purpose), static_cast<std::uint64_t>(epoch)), image));
  kernels::Crop crop;
  crop.x = static_cast<int>(random.below(2 * border + 1)) - border;
  crop.y = static_cast<int>(random.below(2 * border + 1)) - border;
  crop.flip = random.below(2) == 1;
  return crop;
}

}  // namespace dtrain::datasets
