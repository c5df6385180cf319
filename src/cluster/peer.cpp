#include "cluster/member.hpp"

namespace dtrain::cluster {

std::string Peer::describe() const {
  return address.empty() ? fmt::format("{} {}", role, index)
                         : fmt::format("{} {} ({})", role, index, address);
}

}  // namespace dtrain::cluster
