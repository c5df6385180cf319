#pragma once

#include <cstdint>

// On a GPU threads run in an order of their own.
namespace simt {
inline void set_seed(std::uint64_t) {}
}  // namespace simt
