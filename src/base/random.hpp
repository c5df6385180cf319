#pragma once

#include <cstdint>
#include <vector>

namespace dtrain {

// SplitMix64 (Steele, Lea, Flood 2014): also the way to derive independent streams from (seed, purpose,
// index).
std::uint64_t mix(std::uint64_t x);
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return mix(mix(a) ^ (b + 0x9e3779b97f4a7c15ULL));
}

// xoshiro256** 1.0 (Blackman, Vigna 2018). Small, fast, and the same numbers on every platform, which the
// standard distributions do not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed);
  std::uint64_t next();
  double uniform();                          // [0, 1)
  std::uint64_t below(std::uint64_t bound);  // [0, bound), unbiased; bound > 0
  double normal();                           // mean 0, deviation 1

 private:
  std::uint64_t state_[4];
  double spare_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace dtrain
