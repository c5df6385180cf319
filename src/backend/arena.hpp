#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dtrain::backend {

// A buffer that is needed from moment `first` to moment `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct ArenaPlan {
  std::vector<std::size_t> offsets;  // bytes, by lifetime; multiples of the alignment
  std::size_t bytes = 0;
};

// Places buffers so that those alive at the same moment do not overlap: largest first, each at the lowest
// offset that is free during its life (greedy by size, Pisarchyk, Lee 2020).
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes, std::size_t alignment = 64);

}  // namespace dtrain::backend
