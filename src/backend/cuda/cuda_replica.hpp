#pragma once

#include <cstddef>
#include <memory>

#include "backend/replica.hpp"

namespace dtrain::backend::cuda {

// Replicas on GPUs. Environment errors say what memory was asked for, what is free and the largest batch that
// fits.
std::unique_ptr<Replica> make_cuda_replica(const ReplicaConfig& config);

// Bytes of device memory that a replica takes, from shapes.
std::size_t estimate_cuda_memory(const ReplicaConfig& config);

}  // namespace dtrain::backend::cuda
