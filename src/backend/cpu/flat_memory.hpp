#pragma once

#include <algorithm>
#include <span>

#include "backend/replica.hpp"
#include "base/aligned_buffer.hpp"
#include "base/page_buffer.hpp"

namespace dtrain::backend::cpu {

// A flat buffer: floats that are always there, or whose pages come when they are written and go when they
// are released.
class FlatMemory {
 public:
  enum class Kind { fixed, paged };

  FlatMemory() = default;
  FlatMemory(std::size_t floats, Kind kind);

  float* data();
  std::size_t size() const { return floats_; }  // floats
  std::span<float> span() { return {data(), floats_}; }

  void release(Range range);  // whole pages of it
  void clear();               // zero

  std::size_t now() const;  // bytes that are there
  // To be called where they are most: before a release, and when all is written.
  void sample() { most_ = std::max(most_, now()); }
  std::size_t most() const { return most_; }  // the largest sample; 0 before the first

 private:
  std::size_t floats_ = 0;
  Kind kind_ = Kind::fixed;
  AlignedBuffer<float> fixed_;
  PageBuffer paged_;
  std::size_t most_ = 0;
};

// Bytes that a flat buffer of this size takes at most, in buckets that every rank has an equal part of: its
// own parts, and with `with_largest` all of the largest bucket.
std::size_t shared_bytes(std::size_t floats, std::span<const Range> buckets, int shares, bool with_largest);

}  // namespace dtrain::backend::cpu
