#include <algorithm>

#include "parameter_server/server.hpp"

namespace dtrain::parameter_server {

backend::Range shard(std::size_t size, int index, int shards) {
  constexpr std::size_t line = 16;
  const std::size_t lines = (size + line - 1) / line;
  const auto bound = [&](int i) {
    return std::min(size, lines * static_cast<std::size_t>(i) / static_cast<std::size_t>(shards) * line);
  };
  return {bound(index), bound(index + 1) - bound(index)};
}

}  // namespace dtrain::parameter_server
