#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "backend/replica.hpp"
#include "base/aligned_buffer.hpp"
#include "kernels/optimizer.hpp"

namespace dtrain::parameter_server {

// Weights and optimizer state of one shard, in chunks that are updated, sent and read one by one, each under
// its own lock. Part 0 is weights, part 1 + i state i. Chunks are small enough to stay in a core's cache
// between their arrival, update and departure.
class Storage {
 public:
  static constexpr std::size_t chunk_floats = 64 * 1024;

  Storage(const std::string& optimizer, std::size_t floats);

  std::size_t size() const { return size_; }
  int chunks() const { return static_cast<int>(chunks_.size()); }
  int parts() const { return static_cast<int>(parts_.size()); }
  backend::Range chunk(int index) const;  // within the shard; at least one, which may be empty

  struct Update {
    std::uint64_t version = 0;   // of the chunk before
    bool finite = true;          // gradients
    bool weights_finite = true;  // after it
  };
  Update update(int chunk, std::span<const float> gradients, kernels::OptimizerStep step);
  // Counts an update that changes nothing.
  std::uint64_t skip(int chunk);

  std::uint64_t version(int chunk) const;  // updates so far
  // Returns the chunk's version.
  std::uint64_t read(int part, int chunk, std::span<float> values) const;
  // Optimizer steps count on from that of the next update.
  void write(int part, int chunk, std::span<const float> values);

 private:
  struct Chunk {
    mutable std::mutex mutex;
    std::uint64_t version = 0;
    long first_step = 0;      // of the first update since the chunk was written
    std::uint64_t steps = 0;  // since then
  };
  std::span<float> part_of(std::size_t part, int chunk);

  std::size_t size_;
  kernels::OptimizerUpdate update_;
  std::vector<AlignedBuffer<float>> parts_;
  std::vector<Chunk> chunks_;
};

}  // namespace dtrain::parameter_server
