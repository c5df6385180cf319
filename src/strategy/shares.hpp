#pragma once

#include <array>
#include <span>
#include <vector>

#include "backend/replica.hpp"

namespace dtrain::strategy {

// How flat buffers are spread over ranks: each has a part of every bucket, so that all have as much to do
// with each, whenever it comes.
class Shares {
 public:
  Shares(std::span<const backend::Range> buckets, int rank, int ranks);

  int buckets() const { return static_cast<int>(buckets_.size()); }
  backend::Range whole(int bucket) const { return at(bucket).whole; }
  backend::Range own(int bucket) const { return at(bucket).own; }
  // What lies before and behind the own part.
  std::array<backend::Range, 2> others(int bucket) const;
  std::size_t others_size(int bucket) const { return at(bucket).whole.size - at(bucket).own.size; }
  std::size_t largest_others() const { return largest_others_; }

  // The one that holds a layer's parameters.
  int bucket_of(backend::Range parameters) const;

 private:
  struct Bucket {
    backend::Range whole;
    backend::Range own;
  };
  const Bucket& at(int bucket) const { return buckets_[static_cast<std::size_t>(bucket)]; }

  std::vector<Bucket> buckets_;  // the last layers' first: descending in offset
  std::size_t largest_others_ = 0;
};

}  // namespace dtrain::strategy
