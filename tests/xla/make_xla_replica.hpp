#pragma once

#include "backend/xla/xla_replica.hpp"

namespace dtrain::testing {

// On devices of XLA's plugin for the processor.
std::unique_ptr<backend::xla::XlaReplica> make_xla_replica(const backend::ReplicaConfig& config, int devices);

}  // namespace dtrain::testing
