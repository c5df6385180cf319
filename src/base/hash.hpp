#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dtrain {

// FNV-1a over 8-byte words, finished by SplitMix64. Not for security; equal bytes
// give equal values on every run and rank.
class Hash {
 public:
  void add(std::span<const std::byte> bytes);
  template <class T>
  void add(std::span<const T> values) {
    add(std::as_bytes(values));
  }
  std::uint64_t value() const;
  std::string hex() const;

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
  std::uint64_t length_ = 0;
};

}  // namespace dtrain
