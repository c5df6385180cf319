#include "datasets/order.hpp"

#include <algorithm>
#include <numeric>

#include "base/random.hpp"

namespace dtrain::datasets {

std::vector<std::uint32_t> epoch_order(std::size_t size, std::uint64_t seed, int epoch, int buffer) {
  constexpr std::uint64_t purpose = 0x6f72646572;
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  if (buffer <= 1) return order;

  Random random(mix(mix(seed, purpose), static_cast<std::uint64_t>(epoch)));
  std::vector<std::uint32_t> held(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(size, buffer)));
  std::size_t next = held.size();
  for (auto& out : order) {
    auto& drawn = held[random.below(held.size())];
    out = drawn;
    if (next < size) {
      drawn = static_cast<std::uint32_t>(next++);
    } else {
      drawn = held.back();
      held.pop_back();
    }
  }
  return order;
}

}  // namespace dtrain::datasets
