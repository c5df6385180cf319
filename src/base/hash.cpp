#include "base/hash.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/random.hpp"

namespace dtrain {

void Hash::add(std::span<const std::byte> bytes) {
  constexpr std::uint64_t prime = 0x100000001b3ULL;
  length_ += bytes.size();
  while (bytes.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    state_ = (state_ ^ word) * prime;
    state_ ^= state_ >> 29;
    bytes = bytes.subspan(sizeof(word));
  }
  for (const std::byte b : bytes) state_ = (state_ ^ std::to_integer<std::uint64_t>(b)) * prime;
}

std::uint64_t Hash::value() const { return mix(state_, length_); }

std::string Hash::hex() const { return fmt::format("{:016x}", value()); }

}  // namespace dtrain
