#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/replica.hpp"

namespace dtrain::backend {

// Of where every parameter lies in the replica's flat buffers. Weights are as they were afterwards.
std::uint64_t layout_hash(Replica& replica, std::size_t parameter_count);

}  // namespace dtrain::backend
