#pragma once

#include <memory>
#include <span>
#include <string>

#include "comm/exchange.hpp"

namespace dtrain::comm {

// Sums a bucket of gradients over the processes of an exchange with fewer bytes than the whole. What one step
// loses goes with the next (error feedback), so a compressor has memory: one for each buffer, told apart by
// its address and size. Results are the same bits on every process.
class Compressor {
 public:
  virtual ~Compressor() = default;
  virtual void all_reduce(std::span<float> data, Exchange& exchange, const Deadline& deadline) = 0;
};

// "none" (null), "fp16", "bf16", "topk:0.01", "powersgd:4". Usage error for anything else, naming `flag`.
// `seed` must be the same on all processes.
std::unique_ptr<Compressor> make_compressor(const std::string& text, std::uint64_t seed);
// Throws the usage error that make_compressor would; returns the canonical spelling.
std::string parse_compression(const std::string& text, const std::string& flag);

}  // namespace dtrain::comm
