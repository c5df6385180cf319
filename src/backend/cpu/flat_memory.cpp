#include "backend/cpu/flat_memory.hpp"

namespace dtrain::backend::cpu {

FlatMemory::FlatMemory(std::size_t floats, Kind kind) : floats_(floats), kind_(kind) {
  if (kind == Kind::paged) {
    paged_ = PageBuffer(floats * sizeof(float));
  } else {
    fixed_ = AlignedBuffer<float>(floats);
  }
}

float* FlatMemory::data() {
  return kind_ == Kind::fixed ? fixed_.data() : reinterpret_cast<float*>(paged_.data());
}

void FlatMemory::release(Range range) {
  if (kind_ == Kind::paged) paged_.release(range.offset * sizeof(float), range.size * sizeof(float));
}

void FlatMemory::clear() {
  if (kind_ == Kind::paged) {
    paged_.clear();
  } else {
    std::ranges::fill(span(), 0.0F);
  }
}

std::size_t FlatMemory::now() const {
  return kind_ == Kind::fixed ? floats_ * sizeof(float) : paged_.resident();
}

std::size_t shared_bytes(std::size_t floats, std::span<const Range> buckets, int shares, bool with_largest) {
  const std::size_t whole = floats * sizeof(float);
  if (shares <= 1) return whole;
  const auto ranks = static_cast<std::size_t>(shares);
  std::size_t largest = 0;
  for (const Range& bucket : buckets) largest = std::max(largest, bucket.size * sizeof(float));
  // A part begins and ends somewhere in a page, and so does what lies beside it.
  const std::size_t rounding = 2 * PageBuffer::page_size() * (buckets.size() + (with_largest ? 1 : 0));
  return std::min(whole, whole / ranks + (with_largest ? largest - largest / ranks : 0) + rounding);
}

}  // namespace dtrain::backend::cpu
