#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/registry.hpp"
#include "comm/exchange.hpp"

namespace dtrain::comm {

// Sums a bucket of gradients over the processes of an exchange with fewer bytes than the whole. What one step
// loses goes with the next (error feedback), so a compressor has memory: one for each buffer, told apart by
// its address and size. Results are the same bits on every process. A sum that is not finite stays visible as
// such on all of them, and is not remembered. Where there is one process nothing is sent, and nothing lost.
class Compressor {
 public:
  virtual ~Compressor() = default;
  virtual void all_reduce(std::span<float> data, Exchange& exchange, const Deadline& deadline) = 0;
};

// A way to compress, as a flag gives it: NAME, or NAME:NUMBER.
struct Compression {
  std::string example;  // of the number; empty: there is none
  // Of the number. Throws a usage error naming `flag`; returns the canonical spelling.
  std::string (*parse_argument)(const std::string& argument, const std::string& flag) = nullptr;
  std::unique_ptr<Compressor> (*make)(const std::string& argument, std::uint64_t seed) = nullptr;
};

// none, fp16, bf16, topk:R (R of 1: the share of a bucket's elements that is sent), powersgd:R (R: the rank).
const Registry<Compression>& compressions();

// "none" (null), "fp16", "bf16", "topk:0.01", "powersgd:4". Usage error for anything else, naming --compress.
// `seed` must be the same on all processes.
std::unique_ptr<Compressor> make_compressor(const std::string& text, std::uint64_t seed);
// Throws the usage error that make_compressor would, naming `flag`; returns the canonical spelling.
std::string parse_compression(const std::string& text, const std::string& flag);

}  // namespace dtrain::comm
