#include <algorithm>

#include "comm/communicator.hpp"

namespace dtrain::comm {

backend::Range shard_of(std::size_t size, int rank, int ranks) {
  constexpr std::size_t line = 16;
  const std::size_t lines = (size + line - 1) / line;
  const auto bound = [&](int r) {
    return std::min(size, lines * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks) * line);
  };
  return {bound(rank), bound(rank + 1) - bound(rank)};
}

}  // namespace dtrain::comm
