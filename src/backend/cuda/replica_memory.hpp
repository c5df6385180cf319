#pragma once

#include <cstddef>
#include <vector>

#include "backend/cuda/flat_layout.hpp"
#include "backend/cuda/memory.hpp"
#include "backend/cuda/op.hpp"
#include "backend/cuda/program.hpp"

namespace dtrain::backend::cuda {

Element element_of(config::Precision precision);
Policy policy_of(const ReplicaConfig& config);

// Channels an image has on the device: pixels of 16 bytes, for whole-word loads and for tensor cores.
constexpr int image_channels(Element element) { return element == Element::f32 ? 4 : 8; }

// What a replica takes on its device, known before anything is taken.
struct MemoryNeed {
  std::size_t flat = 0;       // weights, gradients, optimizer state and their copies
  std::size_t arena = 0;      // activations and their gradients, for all slots
  std::size_t input = 0;      // batches on their way
  std::size_t workspace = 0;  // of cuDNN's plans
  std::size_t rest = 0;       // statistics, step block, outcome
  std::size_t total() const { return flat + arena + input + workspace + rest; }
};

MemoryNeed memory_need(const ReplicaConfig& config, const FlatLayout& layout, const Program& program);

// What failed, in words: with the largest batch that would fit into what there is.
[[noreturn]] void throw_out_of_memory(const ReplicaConfig& config, const OutOfMemory& failure);

}  // namespace dtrain::backend::cuda
